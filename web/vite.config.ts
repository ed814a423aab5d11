import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { integrity, singleFileWorker, verifierModule } from "./integrity.ts";
import { recordCheck } from "./record-check.ts";

/** Origin of the service, if it differs from the page's own: set by `cargo xtask page --service`. */
const service = originOf(process.env.CLEARSEAL_SERVICE);

/** Name and commit of the page's release: set by `cargo xtask release`. */
const release = releaseOf(process.env.CLEARSEAL_RELEASE);

/** Of the page, on every server. The build adds the hash of the import map to it. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "style-src 'self'",
  // 'self' is the icon; a chart becomes a PNG by way of a Blob.
  "img-src 'self' blob:",
  service === null ? "connect-src 'self'" : `connect-src 'self' ${service} ${service.replace(/^http/, "ws")}`,
  // A worker's script is fetched with its hash and started from a Blob. Not 'self': that would start an unchecked file.
  "worker-src blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
];

/** Address of the host-proxy for `vite dev` and `vite preview`. */
const SERVICE = "http://127.0.0.1:8787";

export default defineConfig({
  plugins: [react(), recordCheck(), verifierModule(), partFiles(), integrity(CONTENT_SECURITY_POLICY)],
  define: {
    __CLEARSEAL_SERVICE__: JSON.stringify(service),
    __CLEARSEAL_RELEASE__: JSON.stringify(release),
  },
  worker: { format: "es", plugins: () => [recordCheck(), verifierModule(), singleFileWorker()] },
  // tokens.test.ts reads the colours from the style sheet.
  test: { css: true },
  build: {
    target: "es2023",
    cssTarget: ["chrome123", "firefox128", "safari17.5"],
    // A data: URL would need a wider Content-Security-Policy than the page has.
    assetsInlineLimit: 0,
    // Each part is one script, which its import loads with its hash.
    modulePreload: { polyfill: false, resolveDependencies: () => [] },
    reportCompressedSize: true,
  },
  server: { proxy: { "/v1": SERVICE } },
  preview: {
    proxy: { "/v1": SERVICE },
    headers: {
      "X-Content-Type-Options": "nosniff",
      "Referrer-Policy": "no-referrer",
    },
  },
});

/** Lists script and styles of each part that loads later, so that the page can load them again after a failure (src/ui/part.ts). */
function partFiles(): Plugin {
  return {
    name: "part-files",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler: (_, { bundle }) =>
        Object.values(bundle ?? {}).flatMap((one) => {
          if (one.type !== "chunk" || !one.isDynamicEntry) return [];
          const files = [one.fileName, ...(one.viteMetadata?.importedCss ?? [])];
          const content = files.map((file) => `/${file}`).join(" ");
          return [{ tag: "meta", attrs: { name: `part-${one.name}`, content }, injectTo: "head" as const }];
        }),
    },
  };
}

/** A name and a commit, as in `0.1.0 1f2e…`. */
function releaseOf(value: string | undefined): { name: string; commit: string } | null {
  if (value === undefined || value === "") return null;
  const [name, commit, ...more] = value.split(" ");
  if (!name || !commit || !/^[0-9a-f]{40}$/.test(commit) || more.length > 0) {
    throw new Error(`CLEARSEAL_RELEASE is "${value}", not a name and a commit`);
  }
  return { name, commit };
}

/** Parses a serialised origin (RFC 6454 §6.2). Rejects anything longer, which could inject directives into the page's policy. */
function originOf(value: string | undefined): string | null {
  if (value === undefined || value === "") return null;
  const url = URL.canParse(value) ? new URL(value) : null;
  if (url?.origin !== value || !["http:", "https:"].includes(url.protocol)) {
    throw new Error(`CLEARSEAL_SERVICE is "${value}", not an origin such as https://embed.example`);
  }
  return value;
}
