import type { Port } from "../verifier/link";
import { messageOf } from "./cause";
import { fetchPageFile, hashOf } from "./page-file";

/** Starts a worker from its file (`?worker&url`). In a built page, only from the bytes that the page was built with. */
export function startWorker<Request, Reply>(path: string, name: string): Port<Request, Reply> {
  return hashOf(path) === null
    ? new Worker(path, { type: "module", name })
    : new PinnedWorker<Request, Reply>(path, name);
}

/**
 * A worker whose script is fetched with its hash and started from a Blob: `new Worker` accepts no hash, and a second request for the
 * same address could return another script. Messages wait until it runs.
 */
export class PinnedWorker<Request, Reply> implements Port<Request, Reply> {
  onmessage: ((event: MessageEvent<Reply>) => void) | null = null;
  onmessageerror: ((event: MessageEvent) => void) | null = null;
  onerror: ((event: ErrorEvent) => void) | null = null;
  #worker: Worker | null = null;
  #waiting: { message: Request; transfer: Transferable[] }[] = [];
  readonly #ended = new AbortController();

  constructor(path: string, name: string) {
    this.#start(path, name).catch((cause: unknown) => {
      if (!this.#ended.signal.aborted)
        this.onerror?.(new ErrorEvent("error", { message: `It could not start: ${messageOf(cause)}.` }));
    });
  }

  postMessage(message: Request, transfer: Transferable[]): void {
    if (this.#worker) this.#worker.postMessage(message, transfer);
    else this.#waiting.push({ message, transfer });
  }

  terminate(): void {
    this.#ended.abort();
    this.#waiting = [];
    this.#worker?.terminate();
  }

  async #start(path: string, name: string): Promise<void> {
    const answer = await fetchPageFile(path, { signal: this.#ended.signal });
    const script = new Blob([await answer.arrayBuffer()], { type: "text/javascript" });
    if (this.#ended.signal.aborted) return;
    const address = URL.createObjectURL(script);
    const worker = new Worker(address, { type: "module", name });
    worker.onmessage = (event) => this.onmessage?.(event);
    worker.onmessageerror = (event) => this.onmessageerror?.(event);
    worker.onerror = (event) => this.onerror?.(event);
    worker.addEventListener("message", () => URL.revokeObjectURL(address), { once: true });
    this.#worker = worker;
    for (const { message, transfer } of this.#waiting.splice(0)) worker.postMessage(message, transfer);
  }
}
