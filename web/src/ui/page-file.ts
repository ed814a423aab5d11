import { fetchPinned } from "./pinned";

const HASHES = readHashes();

/** Hash of a file of the page, as in an `integrity` attribute; null in development, whose files have none. */
export function hashOf(path: string): string | null {
  if (HASHES === null) return null;
  const hash = HASHES[path];
  if (hash === undefined) throw new Error(`${path} is not a file of this page`);
  return hash;
}

/** Fetches a file of the page, and rejects other bytes than those of this build. */
export function fetchPageFile(path: string, options: RequestInit = {}): Promise<Response> {
  const hash = hashOf(path);
  return hash === null ? fetch(path, options) : fetchPinned(path, hash, options);
}

/** From the import map, which the build writes (web/integrity.ts) and the Content-Security-Policy allows by its hash. */
function readHashes(): Readonly<Record<string, string>> | null {
  if (!import.meta.env.PROD) return null;
  const map = document.querySelector('script[type="importmap"]')?.textContent ?? "{}";
  return (JSON.parse(map) as { integrity?: Record<string, string> }).integrity ?? {};
}
