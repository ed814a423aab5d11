import type { Problem, Row } from "@clearseal/verifier";
import { startWorker } from "../ui/worker";
import { CallFailed, Link, type Port as PortOf } from "./link";
import type { Call, Calls, Reply, Request, StreamedPart, Trust } from "./messages";
import script from "./worker.ts?worker&url";

export { CallFailed };

/** The verifier's worker. */
export type Port = PortOf<Request, Reply>;

export interface Listeners {
  /** The wasm module has started; `questions` are the checks that it will run. */
  ready(up: { questions: readonly Row[]; builtIn: string | null }): void;
  /** The session re-verified the enclave automatically. */
  trust(trust: Trust): void;
  /** The worker has stopped, with all unanswered calls. Called at most once. */
  lost(problem: Problem): void;
}

/** Number of pings that may stay unanswered. */
const MAX_UNANSWERED_PINGS = 3;

const SILENT: Problem = {
  code: "VERIFIER_SILENT",
  title: "The verifier stopped",
  detail: "The background worker that holds the session no longer answers.",
  remedy: "Verify again, which starts a new worker.",
};

export const CANCELLED: Problem = {
  code: "CANCELLED",
  title: "Cancelled",
  detail: "You cancelled this request.",
  remedy: "Send it again at any time.",
};

/** Typed calls to the verifier in its Web Worker. */
export class VerifierClient {
  readonly #link: Link<Request, Reply>;
  readonly #listeners: Listeners;
  /** Handlers of partial answers, by the id of the call. */
  readonly #parts = new Map<number, (part: StreamedPart) => void>();

  constructor(port: Port, listeners: Listeners) {
    this.#listeners = listeners;
    this.#link = new Link(port, {
      onReply: (reply) => this.#receive(reply),
      lost: (problem) => listeners.lost(problem),
      silent: SILENT,
      maxUnanswered: MAX_UNANSWERED_PINGS,
    });
  }

  get alive(): boolean {
    return this.#link.alive;
  }

  /** Rejects only with [`CallFailed`]. */
  async call<K extends Call>(
    call: K,
    input: Calls[K]["input"],
    options: {
      signal?: AbortSignal;
      transfer?: Transferable[];
      /** Receives each partial answer. */
      onPart?: (part: StreamedPart) => void;
    } = {},
  ): Promise<Calls[K]["output"]> {
    const { signal, transfer, onPart } = options;
    if (this.alive && signal?.aborted) throw new CallFailed(CANCELLED);
    const { id, answer } = this.#link.ask<Calls[K]["output"]>(
      (id) => ({ kind: "call", id, call, input }) as Request,
      transfer,
    );
    if (onPart) this.#parts.set(id, onPart);
    // Rejects at once, even while the worker is busy; its late answer is ignored.
    const abort = () => {
      this.#link.post({ kind: "abort", id });
      this.#link.fail(id, CANCELLED);
    };
    signal?.addEventListener("abort", abort, { once: true });
    try {
      return await answer;
    } finally {
      signal?.removeEventListener("abort", abort);
      this.#parts.delete(id);
    }
  }

  /** Pings the worker; call it on a timer. */
  ping(): void {
    this.#link.ping();
  }

  close(): void {
    this.#link.close();
  }

  #receive(reply: Exclude<Reply, { kind: "pong" | "lost" }>): void {
    switch (reply.kind) {
      case "ready":
        this.#listeners.ready(reply);
        break;
      case "trust":
        this.#listeners.trust(reply.trust);
        break;
      case "part":
        this.#parts.get(reply.id)?.(reply.part);
        break;
      case "done":
        this.#link.settle(reply.id, reply.output);
        break;
      case "failed":
        this.#link.fail(reply.id, reply.problem);
    }
  }
}

/** Starts the worker, which starts loading wasm at once. */
export function spawnVerifier(listeners: Listeners): VerifierClient {
  return new VerifierClient(startWorker(script, "clearseal-verifier"), listeners);
}
