import type { Problem } from "@clearseal/verifier";

/** The part of a `Worker` that is used, so that tests can stand in for it. */
export interface Port<Request, Reply> {
  postMessage(message: Request, transfer: Transferable[]): void;
  terminate(): void;
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  onmessageerror: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
}

/** What every worker understands, and what every worker sends. */
interface Ping {
  readonly kind: "ping";
}
type Sign = { readonly kind: "pong" } | { readonly kind: "lost"; readonly problem: Problem };

/** Why a call ended without an answer. */
export class CallFailed extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "CallFailed";
  }
}

/** Who hears of a worker. */
export interface Owner<Reply> {
  /** A message that is no sign of life, and not the worker's end. */
  heard(reply: Exclude<Reply, Sign>): void;
  /** The worker is gone, and every answer that it still owed with it. Called at most once. */
  lost(problem: Problem): void;
  /** The problem of a worker that says nothing any more. */
  readonly silent: Problem;
  /** So many unanswered pings mean that it is dead: a worker can end without any event. */
  readonly patience: number;
}

interface Waiting {
  resolve(answer: unknown): void;
  reject(cause: CallFailed): void;
}

/** A Web Worker, and the questions to which it still owes an answer. */
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

  /** Asks under a fresh number. The answer is what `settle` is given for it; it rejects with [`CallFailed`] alone. */
  ask<T>(
    message: (id: number) => Request,
    transfer: Transferable[] = [],
  ): { id: number; answer: Promise<T> } {
    this.#next += 1;
    const id = this.#next;
    if (!this.#alive) return { id, answer: Promise.reject(new CallFailed(this.#owner.silent)) };
    const answer = new Promise<T>((resolve, reject) => {
      // Whoever asks knows what kind of answer belongs to the question.
      this.#waiting.set(id, { resolve: (value) => resolve(value as T), reject });
      this.post(message(id), transfer);
    });
    return { id, answer };
  }

  /** Answers a question. Nobody waits any more for one that was settled before. */
  settle(id: number, answer: unknown): void {
    this.#take(id)?.resolve(answer);
  }

  /** Ends a question without an answer. */
  fail(id: number, problem: Problem): void {
    this.#take(id)?.reject(new CallFailed(problem));
  }

  /** Asks for a sign of life; call it on a timer. */
  ping(): void {
    if (!this.#alive) return;
    if (this.#unanswered >= this.#owner.patience) {
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
    if (!isSign(reply)) this.#owner.heard(reply as Exclude<Reply, Sign>);
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

function isSign(reply: { readonly kind: string }): reply is Sign {
  return reply.kind === "pong" || reply.kind === "lost";
}
