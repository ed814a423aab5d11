import type { Problem } from "@clearseal/verifier";
import { messageOf } from "../../ui/cause";
import { Store } from "../../ui/store";
import type { Exchanged, SealedRequest, Streamed, StreamedPart } from "../../verifier/messages";
import { otherModel } from "../../verifier/model";
import type { KeptWork } from "./kept";
import { decodeEmbeddings, type Embedding, embeddingsRequest } from "./openai";
import {
  batches,
  IDLE,
  indicesAt,
  MAX_SEALED_ITEMS,
  type Receipt,
  type Run,
  type RunEvent,
  transition,
  workOf,
} from "./run";

export interface Service {
  /** Model of the open session; null while nothing can be sent. */
  model(): string | null;
  exchange(request: SealedRequest, signal: AbortSignal): Promise<Exchanged>;
  /** Sends many texts over a channel, and to no other model; each answer is a part. */
  stream(
    texts: readonly string[],
    model: string,
    signal: AbortSignal,
    onPart: (part: StreamedPart) => void,
  ): Promise<Streamed>;
  /** Lets go of earlier audit bundles. */
  forget(): Promise<void>;
}

/** Sealed requests in flight at once: one is read by the model while the next one travels. */
const LANES = 2;

/** A busy enclave is asked this often in all before its items count as failed. */
const TRIES = 4;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;

/** Sends a batch of texts through the seal and keeps what came of each. */
export class RunStore extends Store<Run> {
  #id = 0;
  #controller: AbortController | null = null;
  readonly #service: Service;
  readonly #now: () => number;

  constructor(service: Service, now: () => number = Date.now) {
    super(IDLE);
    this.#service = service;
    this.#now = now;
  }

  /** Receipts of what is shown. */
  readonly receipts = (): readonly Receipt[] => workOf(this.get())?.receipts ?? [];

  /** Shows what was kept earlier. False where something was embedded in the meantime: that stays. */
  readonly restore = (kept: KeptWork): boolean => {
    this.#dispatch({ type: "restored", id: this.#id + 1, kept });
    const run = this.get();
    const restored = run.at === "finished" && run.id === this.#id + 1;
    if (restored) this.#id += 1;
    return restored;
  };

  /** Embeds `texts`, and lets go of earlier results. Does nothing while a run is under way. */
  readonly start = async (model: string, texts: readonly string[]): Promise<void> => {
    if (this.get().at === "running" || texts.length === 0) return;
    this.#id += 1;
    this.#dispatch({ type: "started", id: this.#id, model, texts, nowMs: this.#now() });
    // A verifier that is gone has forgotten them already.
    await this.#work([], () => this.#service.forget().catch(() => undefined));
  };

  /** Goes on with what waits, and tries the items in `again` anew, each alone. */
  readonly resume = async (again: readonly number[] = []): Promise<void> => {
    const { at } = this.get();
    if (at !== "stopped" && at !== "finished") return;
    this.#id += 1;
    this.#dispatch({ type: "resumed", id: this.#id, again, nowMs: this.#now() });
    await this.#work(again);
  };

  /** Stops sending. What has come back stays; the rest waits. */
  readonly cancel = (): void => this.#controller?.abort();

  /** Whatever happens, the run ends: one that stays under way could neither be cancelled nor begun anew. */
  async #work(alone: readonly number[], first?: () => Promise<void>): Promise<void> {
    const id = this.#id;
    const controller = new AbortController();
    this.#controller = controller;
    let problem: Problem | null;
    try {
      await first?.();
      problem = await this.#sendAll(id, alone, controller);
    } catch (cause) {
      controller.abort();
      problem = brokenBy(cause);
    }
    this.#dispatch({ type: "ended", id, problem, nowMs: this.#now() });
  }

  /** Returns the problem that ended it before its time. */
  async #sendAll(id: number, alone: readonly number[], controller: AbortController): Promise<Problem | null> {
    const work = workOf(this.get());
    if (!work) return null;
    const waiting = indicesAt(work, "waiting").filter((index) => !alone.includes(index));
    let stopped = otherModel(work.model, this.#service.model());
    if (stopped) return stopped;
    let rest: readonly number[] = waiting;
    if (waiting.length > MAX_SEALED_ITEMS) {
      const streamed = await this.#stream(id, waiting, controller.signal);
      stopped = streamed.problem;
      rest = streamed.rest;
      if (stopped) controller.abort();
    }
    const queue = [
      ...alone.map((index) => [index]),
      ...batches(
        work.items.map(({ text }) => text),
        rest,
      ),
    ];
    const lane = async () => {
      for (let batch = queue.shift(); batch && !controller.signal.aborted; batch = queue.shift()) {
        const problem = await this.#send(id, batch, queue, controller.signal);
        if (problem) {
          stopped ??= problem;
          controller.abort();
        }
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    return stopped;
  }

  /**
   * Sends items over a channel. `rest`: what is left for sealed requests, which find the one bad item of a batch, and all of it
   * where something on the way lets no channel pass.
   */
  async #stream(
    id: number,
    items: readonly number[],
    signal: AbortSignal,
  ): Promise<{ problem: Problem | null; rest: readonly number[] }> {
    const work = workOf(this.get());
    const rest: number[] = [];
    let parts = 0;
    const texts = items.map((index) => work?.items[index]?.text ?? "");
    const streamed = await this.#service.stream(texts, work?.model ?? "", signal, (part) => {
      parts += 1;
      const { first, count } = part;
      const about = items.slice(first, first + count);
      if (part.status === "embedded") {
        const { exchange, receipt: report, origin, response } = part;
        const receipt = { exchange, report, origin, items: about, response };
        this.#dispatch({ type: "embedded", id, embeddings: embeddingsOf(part), receipt });
      } else if (part.httpStatus < 500) rest.push(...about);
      else this.#dispatch({ type: "failed", id, items: about, problem: part.problem });
    });
    if (streamed.status === "done") return { problem: null, rest };
    const { problem } = streamed;
    if (problem.code === NO_CHANNEL && parts === 0 && !signal.aborted) return { problem: null, rest: items };
    return { problem: signal.aborted ? null : problem, rest: [] };
  }

  /** Sends one batch. Returns a problem that ends the run. */
  async #send(id: number, items: number[], queue: number[][], signal: AbortSignal): Promise<Problem | null> {
    const work = workOf(this.get());
    if (!work) return null;
    const texts = items.map((index) => work.items[index]?.text ?? "");
    this.#dispatch({ type: "sent", id, items });
    for (let tried = 1; ; tried += 1) {
      const other = otherModel(work.model, this.#service.model());
      if (other) {
        this.#dispatch({ type: "returned", id, items });
        return other;
      }
      const exchanged = await this.#service.exchange(embeddingsRequest(work.model, texts), signal);
      if (exchanged.status === "refused") {
        this.#dispatch({ type: "failed", id, items, problem: exchanged.problem });
        return exchanged.problem;
      }
      if (exchanged.status === "unreachable") {
        this.#dispatch({ type: "returned", id, items });
        return signal.aborted ? null : exchanged.problem;
      }
      const decoded = decodeEmbeddings(exchanged.response, items.length);
      switch (decoded.status) {
        case "embedded": {
          // The verifier refuses embeddings without a receipt, so this is for the compiler.
          if (!exchanged.receipt) throw new TypeError("embeddings came without a receipt");
          const { exchange, origin } = exchanged;
          const receipt = { exchange, report: exchanged.receipt, origin, items };
          this.#dispatch({ type: "embedded", id, embeddings: decoded.embeddings, receipt });
          return null;
        }
        case "rejected":
          if (items.length > 1) {
            // One bad item spoils its batch: halve it until only that one fails.
            this.#dispatch({ type: "returned", id, items });
            const half = items.length >> 1;
            queue.unshift(items.slice(0, half), items.slice(half));
          } else this.#dispatch({ type: "failed", id, items, problem: decoded.problem });
          return null;
        case "failed":
          this.#dispatch({ type: "failed", id, items, problem: decoded.problem });
          return null;
        case "busy":
          if (tried >= TRIES) {
            this.#dispatch({ type: "failed", id, items, problem: decoded.problem });
            return null;
          }
          await pause(
            Math.min(decoded.retryAfterMs ?? FIRST_PAUSE_MS * 2 ** (tried - 1), LONGEST_PAUSE_MS),
            signal,
          );
          if (signal.aborted) {
            this.#dispatch({ type: "returned", id, items });
            return null;
          }
      }
    }
  }

  #dispatch(event: RunEvent): void {
    const run = transition(this.get(), event);
    if (run !== this.get()) this.show(run);
  }
}

function brokenBy(cause: unknown): Problem {
  return {
    code: "RUN_BROKEN",
    title: "The page could not go on",
    detail: `It met: ${messageOf(cause)}.`,
    remedy: "Send the rest again; if it stays, this build of the page is broken.",
  };
}

/** Of the verifier: no connection became a channel. */
const NO_CHANNEL = "CHANNEL_NO_CONNECTION";

/** Views of the answer: no number is copied. */
function embeddingsOf(part: Extract<StreamedPart, { status: "embedded" }>): Embedding[] {
  const { count, dimension, values, tokens, truncated } = part;
  return Array.from({ length: count }, (_, row) => ({
    vector: values.subarray(row * dimension, (row + 1) * dimension),
    tokens: tokens[row] ?? null,
    truncated: truncated[row] === 1,
  }));
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
