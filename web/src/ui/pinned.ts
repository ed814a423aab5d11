/** The server sent other bytes for a file than the page was built with. */
export class FileChanged extends Error {
  constructor(address: string) {
    const name = address.slice(address.lastIndexOf("/") + 1);
    super(`the server sends another ${name} than this page was built with, and the browser refused it`);
    this.name = "FileChanged";
  }
}

/** Fetches a file of the page. Rejects if the answer has another hash; with [`FileChanged`] if a second request confirms it. */
export async function fetchPinned(
  address: string,
  integrity: string,
  options: RequestInit = {},
): Promise<Response> {
  try {
    return await fetch(address, { ...options, integrity });
  } catch (cause) {
    // The browser reports a failed network and a changed file alike.
    if (!options.signal?.aborted && (await isChanged(address, integrity))) throw new FileChanged(address);
    throw cause;
  }
}

/** Only an answer with success shows what the server sends. */
async function isChanged(address: string, integrity: string): Promise<boolean> {
  try {
    const answer = await fetch(address, { cache: "no-store", credentials: "omit" });
    if (!answer.ok) return false;
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await answer.arrayBuffer()));
    return integrity !== `sha256-${btoa(String.fromCharCode(...hash))}`;
  } catch {
    return false;
  }
}
