import type { Problem, Row } from "@clearseal/verifier";
import { CallFailed, Link, type Port as PortOf } from "./link";
import type { Call, Calls, Reply, Request, StreamedPart, Trust } from "./messages";

export { CallFailed };

/** The verifier's worker. */
export type Port = PortOf<Request, Reply>;

export interface Listeners {
  /** The wasm module is up; these are the checks that it will make, none of them run. */
  ready(up: { questions: readonly Row[]; builtIn: string | null }): void;
  /** The session attested anew by itself. */
  trust(trust: Trust): void;
  /** The worker is gone, and every answer that it still owed with it. Called at most once. */
  lost(problem: Problem): void;
}

/** Pings that may stay unanswered. */
const PATIENCE = 3;

const SILENT: Problem = {
  code: "VERIFIER_SILENT",
  title: "The verifier stopped",
  detail: "The background worker that holds the session no longer answers.",
  remedy: "Verify again: that starts a fresh one.",
};

export const CANCELLED: Problem = {
  code: "CANCELLED",
  title: "Cancelled",
  detail: "You cancelled this request.",
  remedy: "Send it again when you like.",
};

/** Typed calls to the verifier in its Web Worker. */
export class VerifierClient {
  readonly #link: Link<Request, Reply>;
  readonly #listeners: Listeners;
  /** What comes before an answer, by the number of its call. */
  readonly #parts = new Map<number, (part: StreamedPart) => void>();

  constructor(port: Port, listeners: Listeners) {
    this.#listeners = listeners;
    this.#link = new Link(port, {
      heard: (reply) => this.#heard(reply),
      lost: (problem) => listeners.lost(problem),
      silent: SILENT,
      patience: PATIENCE,
    });
  }

  get alive(): boolean {
    return this.#link.alive;
  }

  /** Rejects with [`CallFailed`], and with nothing else. */
  async call<K extends Call>(
    call: K,
    input: Calls[K]["input"],
    options: {
      signal?: AbortSignal;
      transfer?: Transferable[];
      /** What comes before the answer. */
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
    // The caller is free at once, whatever the worker is still busy with; its late answer then finds nobody waiting.
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

  /** Asks for a sign of life; call it on a timer. */
  ping(): void {
    this.#link.ping();
  }

  close(): void {
    this.#link.close();
  }

  #heard(reply: Exclude<Reply, { kind: "pong" | "lost" }>): void {
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
  const worker = new Worker(new URL("./worker.ts", import.meta.url), {
    type: "module",
    name: "clearseal-verifier",
  });
  return new VerifierClient(worker, listeners);
}
