import { checkFreshness, hex, MAX_TEXT, parseKey, verifySignature } from "./minisign.ts";

/** A page of the user's, and who publishes it. */
export interface WatchedPage {
  /** Serialised origin, such as `https://embed.example`. */
  readonly origin: string;
  /** The publisher's minisign key. */
  readonly key: string;
  /** Address of release.json; its signature is at the same address with `.minisig`. */
  readonly manifest: string;
}

/** A release whose signature was verified. */
export interface Release {
  readonly name: string;
  readonly commit: string;
  /** Time of signing in Unix seconds. */
  readonly signed: number;
  /** SHA-256 of each file of the page in hexadecimal, by its path below the origin without a leading slash. */
  readonly files: Readonly<Record<string, string>>;
}

/** Largest manifest in bytes (crates/release/src/manifest.rs). */
const MAX_BYTES = 1 << 20;

/** Origin of the page that an address shows. Null for `blob:` too, whose document a script made. */
export function originOf(address: string | undefined): string | null {
  const url = URL.parse(address ?? "");
  return url && /^https?:$/.test(url.protocol) ? url.origin : null;
}

/** Fetches and verifies the release of a page. Throws an error with a sentence for the user. */
export async function loadRelease(page: WatchedPage, now: number): Promise<Release> {
  const key = parseKey(page.key);
  const [file, signature] = await Promise.all([
    download(page.manifest, MAX_BYTES),
    download(`${page.manifest}.minisig`, MAX_TEXT),
  ]);
  const signed = await verifySignature(key, file, new TextDecoder().decode(signature));
  checkFreshness(signed, now);
  return { ...parseManifest(file), signed };
}

/** Reads name, commit and the page's files of a manifest, `clearseal-release/1`. */
export function parseManifest(file: Uint8Array): Omit<Release, "signed"> {
  try {
    const { format, name, commit, page } = JSON.parse(new TextDecoder().decode(file));
    if (format !== "clearseal-release/1" || typeof name !== "string" || !isHex(commit, 40)) throw MALFORMED;
    const files = Object.entries(page as Record<string, { sha256?: unknown }>).map(([path, { sha256 }]) => {
      if (!isHex(sha256, 64)) throw MALFORMED;
      return [path, sha256] as const;
    });
    if (!files.some(([path]) => path === DOCUMENT)) throw MALFORMED;
    return { name, commit, files: Object.fromEntries(files) };
  } catch {
    throw MALFORMED;
  }
}

const MALFORMED = new Error("The file at the manifest's address is not a release manifest.");

/** The document of every route. */
const DOCUMENT = "index.html";

/** Types of requests whose answers only scripts of the page read: the service's sealed answers come over them. */
const READ_BY_SCRIPTS = new Set(["xmlhttprequest", "websocket", "ping", "beacon"]);
const DOCUMENTS = new Set(["main_frame", "sub_frame"]);

/** Whether a request is to the service, not to a file of the page. A script from such an address is a file of the page. */
export function isServiceRequest(url: string, type: string): boolean {
  return READ_BY_SCRIPTS.has(type) && (type === "websocket" || new URL(url).pathname.startsWith("/v1/"));
}

/**
 * Whether the header `Link` of an answer contains a style sheet, which Firefox applies to the document (RFC 8288). It may come from another
 * origin, whose requests the extension does not see. A type or parameter with this word counts, too: no release has one.
 */
export function addsStyleSheet({
  type,
  responseHeaders,
}: Pick<RequestDetails, "type" | "responseHeaders">): boolean {
  return (
    !READ_BY_SCRIPTS.has(type) &&
    (responseHeaders ?? []).some(({ name, value }) => /^link$/i.test(name) && /stylesheet/i.test(value ?? ""))
  );
}

/** Outcome of comparing one answer with the release. */
export type Comparison = "same" | "bytes" | "unlisted";

/** Compares the bytes of an answer with the file that the release has at this address. A query is not part of a file's name. */
export async function compare(
  release: Release,
  url: string,
  type: string,
  body: Uint8Array<ArrayBuffer>,
): Promise<Comparison> {
  const path = new URL(url).pathname.slice(1);
  const listed = Object.hasOwn(release.files, path) ? release.files[path] : undefined;
  // The host serves index.html for each route of the page.
  const expected = listed ?? (DOCUMENTS.has(type) ? release.files[DOCUMENT] : undefined);
  if (expected === undefined) return "unlisted";
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", body))) === expected ? "same" : "bytes";
}

/** Reads an address, without the browser's cache and without credentials. */
export async function download(address: string, limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const answer = await fetch(address, { cache: "no-store", credentials: "omit" }).catch(() => null);
  if (!answer?.ok) {
    const why = answer ? `answered with status ${answer.status}` : "could not be reached";
    throw new Error(`${address} ${why}.`);
  }
  return readAnswer(answer, limit);
}

/** Counts the length while reading: a host may send an endless answer. */
export async function readAnswer(answer: Response, limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = answer.body?.getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    length += read.value.length;
    if (length > limit) {
      void reader?.cancel().catch(() => undefined);
      throw new Error(`The answer of ${answer.url} is longer than ${limit} bytes.`);
    }
    chunks.push(read.value);
  }
  return join(chunks);
}

export function join(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

function isHex(value: unknown, digits: number): value is string {
  return typeof value === "string" && value.length === digits && /^[0-9a-f]+$/.test(value);
}
