import type { Problem } from "@clearseal/verifier";
import { messageOf } from "../../ui/cause";
import { Store } from "../../ui/store";
import type { Exchanged, SealedRequest, Streamed, StreamedPart } from "../../verifier/messages";
import { otherModel } from "../../verifier/model";
import { decodeEmbeddings, type Embedding, embeddingsRequest } from "./openai";
import {
  batches,
  IDLE,
  indicesAt,
  MAX_ITEM_CHARACTERS,
  MAX_SEALED_ITEMS,
  type Receipt,
  type RestoredWork,
  type Run,
  type RunEvent,
  transition,
  workOf,
} from "./run";

export interface Service {
  /** `wanted`, if the service holds it, otherwise its first model; null while nothing can be sent. */
  model(wanted: string): string | null;
  exchange(request: SealedRequest, signal: AbortSignal): Promise<Exchanged>;
  /** Sends many texts over a channel, only to `model`; each answer is a part. */
  stream(
    texts: readonly string[],
    model: string,
    signal: AbortSignal,
    onPart: (part: StreamedPart) => void,
  ): Promise<Streamed>;
  /** Discards earlier audit bundles. */
  forget(): Promise<void>;
}

/** Concurrent sealed requests: the model computes one while the next one is in transit. */
const CONCURRENT_REQUESTS = 2;

/** Attempts per batch at a busy enclave, before its items count as failed. */
const MAX_ATTEMPTS = 4;
const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;

/** Sends texts through the seal and records the outcome of each. */
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

  /** Receipts of the displayed run. */
  readonly receipts = (): readonly Receipt[] => workOf(this.get())?.receipts ?? [];

  /** Shows stored items. Returns false if this tab has embedded others meanwhile, which stay. */
  readonly restore = (kept: RestoredWork): boolean => {
    this.#dispatch({ type: "restored", id: this.#id + 1, kept });
    const run = this.get();
    const restored = run.at !== "idle" && run.id === this.#id + 1;
    if (restored) this.#id += 1;
    return restored;
  };

  /** Embeds `texts` and discards earlier results. Does nothing during a run. */
  readonly start = async (model: string, texts: readonly string[]): Promise<void> => {
    if (this.get().at === "running" || texts.length === 0) return;
    this.#id += 1;
    this.#dispatch({ type: "started", id: this.#id, model, texts, nowMs: this.#now() });
    // A verifier that has stopped has no bundles left to discard.
    await this.#work([], () => this.#service.forget().catch(() => undefined));
  };

  /** Sends the waiting items, and retries those in `again` one by one. */
  readonly resume = async (again: readonly number[] = []): Promise<void> => {
    const { at } = this.get();
    if (at !== "stopped" && at !== "finished") return;
    this.#id += 1;
    this.#dispatch({ type: "resumed", id: this.#id, again, nowMs: this.#now() });
    await this.#work(again);
  };

  /** Stops sending. Embedded items stay; the others wait. */
  readonly cancel = (): void => this.#controller?.abort();

  /** Ends the run on every error: a run that never ends could be neither cancelled nor restarted. */
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
      problem = internalError(cause);
    }
    this.#dispatch({ type: "ended", id, problem, nowMs: this.#now() });
  }

  /** Returns the problem that ended the run early, or null. */
  async #sendAll(id: number, alone: readonly number[], controller: AbortController): Promise<Problem | null> {
    const work = workOf(this.get());
    if (!work) return null;
    const waiting = indicesAt(work, "waiting").filter((index) => !alone.includes(index));
    let stopped = otherModel(work.model, this.#service.model(work.model));
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
    const sendBatches = async () => {
      for (let batch = queue.shift(); batch && !controller.signal.aborted; batch = queue.shift()) {
        const problem = await this.#send(id, batch, queue, controller.signal);
        if (problem) {
          stopped ??= problem;
          controller.abort();
        }
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT_REQUESTS }, sendBatches));
    return stopped;
  }

  /**
   * Sends items over a channel, which refuses a bad item alone. Returns in `rest` the items that sealed requests must send: those of
   * batches that were refused whole, or all of them if an intermediary blocks the channel.
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
        this.#dispatch({ type: "embedded", id, embeddings: viewEmbeddings(part), receipt });
      } else if (part.httpStatus < 500 && count > 1) rest.push(...about);
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
    // Such a text is alone in its batch.
    if (texts.length === 1 && (texts[0]?.length ?? 0) > MAX_ITEM_CHARACTERS) {
      this.#dispatch({ type: "failed", id, items, problem: TOO_LONG });
      return null;
    }
    this.#dispatch({ type: "sent", id, items });
    for (let attempt = 1; ; attempt += 1) {
      const other = otherModel(work.model, this.#service.model(work.model));
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
          // Unreachable: the verifier rejects embeddings without a receipt.
          if (!exchanged.receipt) throw new TypeError("embeddings came without a receipt");
          const { exchange, origin } = exchanged;
          const receipt = { exchange, report: exchanged.receipt, origin, items };
          this.#dispatch({ type: "embedded", id, embeddings: decoded.embeddings, receipt });
          return null;
        }
        case "rejected":
          if (items.length > 1) {
            // One bad item fails its whole batch: bisect until only that item fails.
            this.#dispatch({ type: "returned", id, items });
            const half = items.length >> 1;
            queue.unshift(items.slice(0, half), items.slice(half));
          } else this.#dispatch({ type: "failed", id, items, problem: decoded.problem });
          return null;
        case "failed":
          this.#dispatch({ type: "failed", id, items, problem: decoded.problem });
          return null;
        case "busy":
          if (attempt >= MAX_ATTEMPTS) {
            this.#dispatch({ type: "failed", id, items, problem: decoded.problem });
            return null;
          }
          await pause(
            Math.min(decoded.retryAfterMs ?? MIN_BACKOFF_MS * 2 ** (attempt - 1), MAX_BACKOFF_MS),
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

function internalError(cause: unknown): Problem {
  return {
    code: "RUN_BROKEN",
    title: "The page failed",
    detail: `It reported: ${messageOf(cause)}.`,
    remedy: "Send the rest again. If this repeats, this build of the page is broken.",
  };
}

/** The enclave refuses a shorter text with the same code. */
const TOO_LONG: Problem = {
  code: "TEXT_TOO_LONG",
  title: "The text is too long",
  detail: "The text is longer than one request holds; it was not sent.",
  remedy: "Split the text into parts of a few hundred words.",
};

/** The verifier's code for: no connection became a channel. */
const NO_CHANNEL = "CHANNEL_NO_CONNECTION";

/** Views into the answer, without copying. */
function viewEmbeddings(part: Extract<StreamedPart, { status: "embedded" }>): Embedding[] {
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
