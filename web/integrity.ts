import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

/** Name of the file with the header `Content-Security-Policy` of the page. */
const CONTENT_POLICY_FILE = "content-security-policy.txt";

/** Name of the file with the header `Integrity-Policy`: a script without a hash does not run, however it got into the page. */
const INTEGRITY_POLICY_FILE = "integrity-policy.txt";
const INTEGRITY_POLICY = "blocked-destinations=(script)";

/** Files that neither run nor are read by the page's scripts. The list of files contains the hash of index.html. */
const UNPINNED = /^(?:index\.html|favicon\.svg|[\w-]+\.txt)$|\.gz$/;

/** Addresses under which a part of the page may load again after a failure (src/ui/part.ts), as `?attempt=2`. */
const ATTEMPTS = [2, 3, 4, 5, 6, 7, 8];

/** A built page whose files are not yet named by hash. */
export interface BuiltPage {
  readonly html: string;
  /** Content by path below the page's address, without a leading slash. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Scripts that the page imports later. */
  readonly parts: readonly string[];
  readonly contentPolicy: readonly string[];
}

/**
 * Names every script, style and data file of a page by its hash: the browser then runs no other bytes. The
 * elements of index.html get an `integrity`; an import map contains the hashes of everything that loads later, for the browser's
 * imports and for the page's own requests. The policy allows this one inline script.
 */
export function pinPage(page: BuiltPage): { html: string; contentPolicy: string } {
  const map = importMap(page);
  const contentPolicy = page.contentPolicy.map((directive) =>
    directive.startsWith("script-src ") ? `${directive} '${hashOf(Buffer.from(map))}'` : directive,
  );
  // `frame-ancestors` works only in a header (CSP Level 3 §6.4.2).
  const meta = contentPolicy.filter((one) => !one.startsWith("frame-ancestors")).join("; ");
  const head = `<head>
    <meta http-equiv="Content-Security-Policy" content="${meta}">
    <script type="importmap">${map}</script>`;
  const html = page.html
    .replace(/<(script|link)\b[^>]*>/g, (tag, name) => pinTag(tag, name, page.files))
    .replace("<head>", () => head);
  return { html, contentPolicy: contentPolicy.join("; ") };
}

function importMap({ files, parts }: BuiltPage): string {
  const integrity: Record<string, string> = {};
  for (const [path, content] of [...files].sort(([one], [other]) => (one < other ? -1 : 1))) {
    if (UNPINNED.test(path)) continue;
    const hash = hashOf(content);
    integrity[`/${path}`] = hash;
    if (parts.includes(path)) for (const attempt of ATTEMPTS) integrity[`/${path}?attempt=${attempt}`] = hash;
  }
  return JSON.stringify({ integrity });
}

function pinTag(tag: string, name: string, files: BuiltPage["files"]): string {
  if (name === "link" && !/rel="(?:stylesheet|modulepreload)"/.test(tag)) return tag;
  const [, path] = /\b(?:src|href)="\/([^"?]+)"/.exec(tag) ?? [];
  const content = path === undefined ? undefined : files.get(path);
  if (content === undefined) throw new Error(`${tag} names no file of the page`);
  // A response of another mode than CORS has no integrity under Integrity-Policy.
  const crossorigin = /\bcrossorigin\b/.test(tag) ? "" : " crossorigin";
  return tag.replace(/>$/, `${crossorigin} integrity="${hashOf(content)}">`);
}

/** As in an `integrity` attribute (Subresource Integrity §3.1). */
export function hashOf(content: Uint8Array): string {
  return `sha256-${createHash("sha256").update(content).digest("base64")}`;
}

/**
 * Applies [`pinPage`] to the written files, because only these are what a server sends. Writes the policies into the page, so that
 * the first applies on every server, and into files for the server's headers.
 */
export function integrity(contentPolicy: readonly string[]): Plugin {
  return {
    name: "integrity",
    apply: "build",
    enforce: "post",
    writeBundle: {
      order: "post",
      sequential: true,
      handler({ dir }, bundle) {
        if (dir === undefined) throw new Error("the page is built into no folder");
        const parts = Object.values(bundle).flatMap((one) =>
          one.type === "chunk" && one.isDynamicEntry ? [one.fileName] : [],
        );
        const index = join(dir, "index.html");
        const files = readFiles(dir);
        const page = pinPage({ html: readFileSync(index, "utf8"), files, parts, contentPolicy });
        writeFileSync(index, page.html);
        writeFileSync(join(dir, CONTENT_POLICY_FILE), `${page.contentPolicy}\n`);
        writeFileSync(join(dir, INTEGRITY_POLICY_FILE), `${INTEGRITY_POLICY}\n`);
      },
    },
    // A preview fails like the real page.
    configurePreviewServer(server) {
      const { root, build } = server.config;
      const read = (name: string) => readFileSync(join(root, build.outDir, name), "utf8").trim();
      server.middlewares.use((_, response, next) => {
        response.setHeader("Content-Security-Policy", read(CONTENT_POLICY_FILE));
        response.setHeader("Integrity-Policy", read(INTEGRITY_POLICY_FILE));
        next();
      });
    },
  };
}

function readFiles(folder: string): Map<string, Uint8Array> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = new Map<string, Uint8Array>();
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    files.set(path.slice(folder.length + 1).replaceAll("\\", "/"), readFileSync(path));
  }
  return files;
}

/** Refuses a worker of several files: it starts from a Blob, which has no folder to import from. */
export function singleFileWorker(): Plugin {
  return {
    name: "single-file-worker",
    generateBundle(_, bundle) {
      for (const one of Object.values(bundle)) {
        const imports = one.type === "chunk" ? [...one.imports, ...one.dynamicImports] : [];
        if (imports.length > 0) throw new Error(`${one.fileName} imports ${imports.join(", ")}`);
      }
    },
  };
}

const MODULE = "virtual:verifier-module";

/** Address and hash of the verifier's WebAssembly, for its workers. */
export function verifierModule(): Plugin {
  return {
    name: "verifier-module",
    resolveId: (source) => (source === MODULE ? `\0${MODULE}` : null),
    async load(id) {
      if (id !== `\0${MODULE}`) return null;
      const file = await this.resolve("@clearseal/verifier/module.wasm");
      if (!file) throw new Error("@clearseal/verifier has no module.wasm; build it with `cargo xtask wasm`");
      this.addWatchFile(file.id);
      const hash = hashOf(readFileSync(file.id));
      return `export { default as path } from ${JSON.stringify(`${file.id}?url`)};
export const integrity = ${JSON.stringify(hash)};`;
    },
  };
}
