import type { Problem, Row } from "@clearseal/verifier";
import type { Call, Calls, Reply, Request, StreamedPart, Trust } from "./messages";

/** The part of a `Worker` that the client uses, so that tests can stand in for it. */
export interface Port {
  postMessage(message: Request, transfer: Transferable[]): void;
  terminate(): void;
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  onmessageerror: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
}

export interface Listeners {
  /** The wasm module is up; these are the checks that it will make, none of them run. */
  ready(up: { questions: readonly Row[]; builtIn: string | null }): void;
  /** The session attested anew by itself. */
  trust(trust: Trust): void;
  /** The worker is gone, and every answer that it still owed with it. Called at most once. */
  lost(problem: Problem): void;
}

/** Why a call ended without an answer. */
export class CallFailed extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "CallFailed";
  }
}

interface Waiting {
  resolve(output: Calls[Call]["output"]): void;
  reject(cause: CallFailed): void;
  onPart(part: StreamedPart): void;
}

/** This many unanswered pings mean that the worker is dead: a worker can end without any event. */
const PATIENCE = 3;

const SILENT: Problem = {
  code: "VERIFIER_SILENT",
  title: "The verifier stopped",
  detail: "The background worker that holds the session no longer answers.",
  remedy: "Verify again: that starts a fresh one.",
};

const CANCELLED: Problem = {
  code: "CANCELLED",
  title: "Cancelled",
  detail: "You cancelled this request.",
  remedy: "Send it again when you like.",
};

/** Typed calls to the verifier in its Web Worker. */
export class VerifierClient {
  readonly #port: Port;
  readonly #listeners: Listeners;
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;
  #unanswered = 0;
  #alive = true;

  constructor(port: Port, listeners: Listeners) {
    this.#port = port;
    this.#listeners = listeners;
    port.onmessage = ({ data }) => this.#receive(data);
    port.onmessageerror = () => this.#lose(SILENT);
    port.onerror = (event) => {
      this.#lose({
        ...SILENT,
        code: "VERIFIER_FAILED",
        detail: event.message || "The background worker could not start.",
      });
    };
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Rejects with [`CallFailed`], and with nothing else. */
  call<K extends Call>(
    call: K,
    input: Calls[K]["input"],
    options: {
      signal?: AbortSignal;
      transfer?: Transferable[];
      /** What comes before the answer. */
      onPart?: (part: StreamedPart) => void;
    } = {},
  ): Promise<Calls[K]["output"]> {
    if (!this.#alive) return Promise.reject(new CallFailed(SILENT));
    if (options.signal?.aborted) return Promise.reject(new CallFailed(CANCELLED));
    this.#next += 1;
    const id = this.#next;
    // The caller is free at once, whatever the worker is still busy with; its late answer then finds nobody waiting.
    const abort = () => {
      this.#post({ kind: "abort", id });
      this.#take(id)?.reject(new CallFailed(CANCELLED));
    };
    options.signal?.addEventListener("abort", abort, { once: true });
    const onPart = options.onPart ?? (() => {});
    return new Promise<Calls[K]["output"]>((resolve, reject) => {
      // The worker answers a call with that call's own output; the map cannot say so in types.
      this.#waiting.set(id, { resolve: (output) => resolve(output as Calls[K]["output"]), reject, onPart });
      this.#post({ kind: "call", id, call, input } as Request, options.transfer);
    });
  }

  /** Asks for a sign of life; call it on a timer. */
  ping(): void {
    if (!this.#alive) return;
    if (this.#unanswered >= PATIENCE) {
      this.#lose(SILENT);
      return;
    }
    this.#unanswered += 1;
    this.#post({ kind: "ping" });
  }

  close(): void {
    this.#alive = false;
    this.#port.onmessage = null;
    this.#port.terminate();
    this.#abandon(SILENT);
  }

  #receive(reply: Reply): void {
    this.#unanswered = 0;
    switch (reply.kind) {
      case "pong":
        break;
      case "ready":
        this.#listeners.ready(reply);
        break;
      case "trust":
        this.#listeners.trust(reply.trust);
        break;
      case "lost":
        this.#lose(reply.problem);
        break;
      case "part":
        this.#waiting.get(reply.id)?.onPart(reply.part);
        break;
      case "done":
        this.#take(reply.id)?.resolve(reply.output);
        break;
      case "failed":
        this.#take(reply.id)?.reject(new CallFailed(reply.problem));
    }
  }

  #take(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }

  #lose(problem: Problem): void {
    if (!this.#alive) return;
    this.close();
    this.#listeners.lost(problem);
  }

  #abandon(problem: Problem): void {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(new CallFailed(problem));
  }

  #post(request: Request, transfer: Transferable[] = []): void {
    if (this.#alive) this.#port.postMessage(request, transfer);
  }
}

/** Starts the worker, which starts loading wasm at once. */
export function spawnVerifier(listeners: Listeners): VerifierClient {
  const worker = new Worker(new URL("./worker.ts", import.meta.url), {
    type: "module",
    name: "clearseal-verifier",
  });
  return new VerifierClient(worker, listeners);
}
