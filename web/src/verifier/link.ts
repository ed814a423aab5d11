import type { Problem } from "@clearseal/verifier";

/** The part of `Worker` that a link uses; tests implement it. */
export interface Port<Request, Reply> {
  postMessage(message: Request, transfer: Transferable[]): void;
  terminate(): void;
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  onmessageerror: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
}

/** Messages that every worker accepts and sends. */
interface Ping {
  readonly kind: "ping";
}
type Status = { readonly kind: "pong" } | { readonly kind: "lost"; readonly problem: Problem };

/** Reason why a call ended without an answer. */
export class CallFailed extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "CallFailed";
  }
}

/** Callbacks and limits of a link. */
export interface Owner<Reply> {
  /** Receives every message except status messages. */
  onReply(reply: Exclude<Reply, Status>): void;
  /** The worker has stopped, with all unanswered calls. Called at most once. */
  lost(problem: Problem): void;
  /** The problem of a worker that no longer answers. */
  readonly silent: Problem;
  /** Unanswered pings after which the worker counts as dead: a worker can end without any event. */
  readonly maxUnanswered: number;
}

interface Waiting {
  resolve(answer: unknown): void;
  reject(cause: CallFailed): void;
}

/** A Web Worker with its unanswered calls. */
export class Link<Request, Reply extends { readonly kind: string }> {
  readonly #port: Port<Request | Ping, Reply>;
  readonly #owner: Owner<Reply>;
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;
  #unanswered = 0;
  #alive = true;

  constructor(port: Port<Request | Ping, Reply>, owner: Owner<Reply>) {
    this.#port = port;
    this.#owner = owner;
    port.onmessage = ({ data }) => this.#receive(data);
    port.onmessageerror = () => this.#lose(owner.silent);
    port.onerror = (event) => {
      const detail = event.message || "The background worker could not start.";
      this.#lose({ ...owner.silent, code: "VERIFIER_FAILED", detail });
    };
  }

  get alive(): boolean {
    return this.#alive;
  }

  post(message: Request | Ping, transfer: Transferable[] = []): void {
    if (this.#alive) this.#port.postMessage(message, transfer);
  }

  /** Sends a request under a new id. `settle` resolves its answer, which rejects only with [`CallFailed`]. */
  ask<T>(
    message: (id: number) => Request,
    transfer: Transferable[] = [],
  ): { id: number; answer: Promise<T> } {
    this.#next += 1;
    const id = this.#next;
    if (!this.#alive) return { id, answer: Promise.reject(new CallFailed(this.#owner.silent)) };
    const answer = new Promise<T>((resolve, reject) => {
      // The caller knows the type of the answer.
      this.#waiting.set(id, { resolve: (value) => resolve(value as T), reject });
      this.post(message(id), transfer);
    });
    return { id, answer };
  }

  /** Resolves a call. Ignores one that is settled already. */
  settle(id: number, answer: unknown): void {
    this.#take(id)?.resolve(answer);
  }

  /** Rejects a call. */
  fail(id: number, problem: Problem): void {
    this.#take(id)?.reject(new CallFailed(problem));
  }

  /** Pings the worker; call it on a timer. */
  ping(): void {
    if (!this.#alive) return;
    if (this.#unanswered >= this.#owner.maxUnanswered) {
      this.#lose(this.#owner.silent);
      return;
    }
    this.#unanswered += 1;
    this.post({ kind: "ping" });
  }

  close(problem: Problem = this.#owner.silent): void {
    this.#alive = false;
    this.#port.onmessage = null;
    this.#port.terminate();
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(new CallFailed(problem));
  }

  #receive(reply: Reply): void {
    this.#unanswered = 0;
    if (!isStatus(reply)) this.#owner.onReply(reply as Exclude<Reply, Status>);
    else if (reply.kind === "lost") this.#lose(reply.problem);
  }

  #take(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }

  #lose(problem: Problem): void {
    if (!this.#alive) return;
    this.close(problem);
    this.#owner.lost(problem);
  }
}

function isStatus(reply: { readonly kind: string }): reply is Status {
  return reply.kind === "pong" || reply.kind === "lost";
}
