import type { ExchangeOutcome, TensorLayout } from "../pkg/clearseal_verifier.js";
import { Link, type Socket } from "./link.js";
import { unlessAborted } from "./transport.js";
import { StreamError, type StreamedBatch, type StreamOptions, type StreamProgress } from "./types.js";
import type { Enclave, Opened } from "./verifier.js";
import { pause, Wake } from "./wake.js";

/** Maximum number of texts in one request, and so under one receipt. */
const MOST_ITEMS = 256;
/** Maximum size of one request as JSON, well below the enclave's limit (512 KiB, padding included). */
const MOST_BYTES = 384 * 1024;
/** A longer text (in bytes of JSON) is sent in a separate request: if the enclave refuses it, other texts are not affected. */
const LONG_ITEM = 64 * 1024;
/** Maximum size of one text as JSON, which fits into one request with its padding. JSON may write one byte as six. */
const LONGEST_ITEM = 448 * 1024;
/** Requests in flight: an enclave processes two per channel, while the next ones are in transit. */
const WINDOW = 4;
/** Idle timeout: a busy enclave sends a heartbeat every 10 seconds. */
const PATIENCE_MS = 30_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
/** How many connections in a row may end without an answer. */
const ATTEMPTS = 10;

/** Interface of the session that a stream uses. */
export interface StreamHost {
  readonly channelUrl: (enclave: Enclave) => string;
  readonly now: () => number;
  /** The current enclave, verified and within its validity. Throws a {@link StreamError} if there is none. */
  enclave(): Promise<Enclave>;
  /** Aborted when the trust policy changes: nothing more is sent over earlier connections. */
  change(): AbortSignal;
  /** Asks the policy source again, if that is due. */
  followPolicy(): void;
  /** Verifies again, to replace `used`. Throws a {@link StreamError} if that fails. */
  renew(used: Enclave): Promise<void>;
  readonly model: () => string;
  /** Opens a socket; tests replace it. */
  readonly socket: (url: string) => Socket;
}

/** Consecutive texts in one request. */
interface Batch {
  readonly first: number;
  /** As JSON. */
  readonly items: readonly string[];
}

type Rejected = Extract<StreamedBatch, { status: "rejected" }>;

/**
 * Sends every text and yields every answer, once and in order, over as many connections as necessary. Requests that were
 * unanswered when a connection ended are sent again over the next one. Refused evidence and forged bytes end the
 * stream: a network failure cannot cause them.
 */
export function stream(
  host: StreamHost,
  texts: Iterable<string> | AsyncIterable<string>,
  options: StreamOptions,
): AsyncGenerator<StreamedBatch, void, undefined> {
  return new Stream(host, texts, options).results();
}

class Stream {
  readonly #host: StreamHost;
  readonly #options: StreamOptions;
  readonly #batches: AsyncIterator<Batch | Rejected>;
  readonly #wake = new Wake();
  readonly #taken = new Wake();
  readonly #stop = new AbortController();
  readonly #patienceMs: number;
  readonly #window: number;
  /** Start and end of a request, around its texts. */
  readonly #around: readonly [string, string];
  /** Unanswered requests, in order. More than the window after a refused batch was split. */
  readonly #inFlight: Batch[] = [];
  /** Batches that were settled before an earlier text, by the index of their first text. */
  readonly #early = new Map<number, StreamedBatch>();
  /** Index of the first text after those in `#ready`. */
  #next = 0;
  /** Settled, in order, but not yet yielded. */
  readonly #ready: StreamedBatch[] = [];
  /** Read from the source, but not yet sent. */
  #read: Batch | Rejected | null = null;
  #reading = false;
  #ended = false;
  #failure: unknown = null;
  #finished = false;
  #answered = 0;
  #settled = 0;
  #connections = 0;

  constructor(host: StreamHost, texts: Iterable<string> | AsyncIterable<string>, options: StreamOptions) {
    this.#host = host;
    this.#options = options;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
    this.#window = Math.max(1, options.window ?? WINDOW);
    const empty = JSON.stringify({ model: host.model(), encoding_format: "tensors", input: [] });
    this.#around = [empty.slice(0, -2), "]}"];
    this.#batches = cut(texts, Math.min(MOST_ITEMS, Math.max(1, options.batchItems ?? MOST_ITEMS)));
  }

  async *results(): AsyncGenerator<StreamedBatch, void, undefined> {
    const { signal } = this.#options;
    const abort = () => {
      this.#stop.abort();
      this.#wake.fire();
    };
    if (signal?.aborted) throw ABORTED;
    signal?.addEventListener("abort", abort, { once: true });
    void this.#work();
    try {
      for (;;) {
        const batch = this.#ready.shift();
        if (batch) {
          this.#wake.fire();
          yield batch;
        } else if (this.#failure) throw this.#failure;
        else if (this.#finished) return;
        else await this.#taken.wait();
      }
    } finally {
      signal?.removeEventListener("abort", abort);
      abort();
      // Not awaited: it queues behind a pending `next()`, which may never settle. Its errors are ignored.
      this.#batches.return?.().catch(() => undefined);
    }
  }

  async #work(): Promise<void> {
    try {
      await this.#run();
    } catch (cause) {
      this.#failure ??= this.#stop.signal.aborted ? ABORTED : cause;
    }
    this.#finished = true;
    this.#taken.fire();
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (await this.#somethingToDo()) {
      const before = this.#answered;
      try {
        await this.#overOne();
      } catch (cause) {
        const transient = cause instanceof StreamError && cause.transient;
        if (!transient || this.#stop.signal.aborted) throw cause;
        // The connection ended while no request was in flight: not a failure.
        if (this.#inFlight.length === 0) {
          failures = 0;
          continue;
        }
        failures = this.#answered > before ? 1 : failures + 1;
        if (failures > (this.#options.attempts ?? ATTEMPTS)) throw cause;
        // Full jitter: clients that lost the same server do not reconnect at once.
        const limit = Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), LONGEST_PAUSE_MS);
        await pause(Math.random() * limit, this.#stop.signal);
      }
    }
  }

  /**
   * Waits for a batch to send: there is no connection before that, nor while the reader takes nothing. Returns false after the
   * last batch.
   */
  async #somethingToDo(): Promise<boolean> {
    for (;;) {
      this.#throwIfStopped();
      if (this.#inFlight.length === 0 && this.#mayTakeMore()) this.#takeNext();
      if (this.#inFlight.length > 0) return true;
      if (this.#ended && !this.#read) return false;
      this.#readAhead();
      await this.#wake.wait();
    }
  }

  /** Runs one connection until everything is answered or it fails. */
  async #overOne(): Promise<void> {
    // Taken before `enclave()`, so that a policy change during the call ends this connection.
    const change = this.#host.change();
    const enclave = await unlessAborted(this.#host.enclave(), this.#stop.signal);
    if (!enclave || this.#stop.signal.aborted) throw ABORTED;
    this.#connections += 1;
    const link = new Link(this.#host.socket(this.#host.channelUrl(enclave)), enclave.openChannel(), {
      patienceMs: this.#patienceMs,
      now: this.#host.now,
      wake: this.#wake.fire,
    });
    change.addEventListener("abort", this.#wake.fire, { once: true });
    try {
      await this.#converse(link, change);
    } catch (cause) {
      if (!(cause instanceof StreamError) || !cause.stale) throw cause;
      await unlessAborted(this.#host.renew(enclave), this.#stop.signal);
      // The enclave was verified again, so the next connection may work.
      throw new StreamError(cause.code, cause.message, cause.remedy, { transient: true });
    } finally {
      change.removeEventListener("abort", this.#wake.fire);
      link.end();
    }
  }

  async #converse(link: Link, change: AbortSignal): Promise<void> {
    let sent = 0;
    for (;;) {
      this.#throwIfStopped();
      this.#host.followPolicy();
      if (change.aborted) throw JUDGED_ANEW;
      for (let answer = link.take(); answer; answer = link.take()) {
        this.#accept(answer, sent);
        sent -= 1;
      }
      if (link.failure) throw link.failure;
      if (link.closed) throw CLOSED;
      if (link.opened) {
        while (sent < Math.min(this.#inFlight.length, this.#window) && link.hasRoom()) {
          this.#ask(link, this.#inFlight[sent]);
          sent += 1;
        }
        while (sent === this.#inFlight.length && this.#mayTakeMore() && link.hasRoom() && this.#takeNext()) {
          this.#ask(link, this.#inFlight[sent]);
          sent += 1;
        }
        if (this.#inFlight.length === 0 && this.#ended && !this.#read) return;
        if (this.#mayTakeMore()) this.#readAhead();
      }
      await this.#wake.wait();
    }
  }

  /** Both the requests in flight and the unread answers are limited. */
  #mayTakeMore(): boolean {
    const untaken = this.#ready.length + this.#early.size;
    return this.#inFlight.length < this.#window && untaken < this.#window;
  }

  /** Moves the batch that was read ahead to the requests in flight. Returns false if there is none, or if its text is not sent. */
  #takeNext(): boolean {
    const next = this.#read;
    this.#read = null;
    if (!next) return false;
    if ("status" in next) {
      this.#settle(next);
      return false;
    }
    this.#inFlight.push(next);
    return true;
  }

  #ask(link: Link, batch: Batch | undefined): void {
    if (!batch) return;
    const [start, end] = this.#around;
    const body = new TextEncoder().encode(`${start}${batch.items.join(",")}${end}`);
    link.ask("POST", "/v1/embeddings", ["content-type", "application/json"], body);
  }

  /** Handles the answer to the first request in flight. `sent`: number of requests that were sent over this connection. */
  #accept(answer: Opened, sent: number): void {
    const batch = this.#inFlight[0];
    try {
      if (!batch) throw OUT_OF_TURN;
      const outcome = answer.outcome();
      if (outcome.status === "refused") throw OUT_OF_TURN;
      const body = answer.body() as Uint8Array<ArrayBuffer>;
      const { httpStatus } = outcome;
      if (httpStatus === 429 || httpStatus === 503) {
        const { code, detail } = problemIn(body, httpStatus);
        throw new StreamError(code, detail, "Try again later.", { transient: true });
      }
      this.#answered += 1;
      const settled = outcomeOf(answer, outcome, body, batch);
      if (settled === "divide") {
        // After the sent requests, which are answered first, but before the unsent ones, to keep the order of the answers.
        this.#inFlight.splice(sent, 0, ...halves(batch));
        this.#inFlight.shift();
      } else {
        this.#inFlight.shift();
        this.#settle(settled);
      }
    } finally {
      answer.free();
    }
  }

  /** Queues a batch for the reader once every text before it is settled. */
  #settle(batch: StreamedBatch): void {
    this.#settled += batch.count;
    this.#early.set(batch.first, batch);
    for (let due = this.#early.get(this.#next); due; due = this.#early.get(this.#next)) {
      this.#early.delete(this.#next);
      this.#next += due.count;
      this.#ready.push(due);
    }
    this.#taken.fire();
    const progress: StreamProgress = {
      items: this.#settled,
      batches: this.#answered,
      connections: this.#connections,
    };
    this.#options.onProgress?.(progress);
  }

  #readAhead(): void {
    if (this.#reading || this.#read || this.#ended) return;
    this.#reading = true;
    this.#batches.next().then(
      ({ done, value }) => {
        this.#reading = false;
        if (done) this.#ended = true;
        else this.#read = value;
        this.#wake.fire();
      },
      (cause: unknown) => {
        // An error of the caller's source ends the stream unchanged.
        this.#failure = cause;
        this.#stop.abort();
        this.#wake.fire();
        this.#taken.fire();
      },
    );
  }

  #throwIfStopped(): void {
    if (this.#stop.signal.aborted) throw ABORTED;
  }
}

/**
 * Result of a batch. "divide": the enclave refuses one of its texts without naming it. Each half is then requested separately, so
 * that in the end only that text is without a vector, and the enclave's reason is about it.
 */
function outcomeOf(
  answer: Opened,
  outcome: Extract<ExchangeOutcome, { status: "answered" }>,
  body: Uint8Array<ArrayBuffer>,
  { first, items }: Batch,
): StreamedBatch | "divide" {
  const [count, { httpStatus, receipt }] = [items.length, outcome];
  if (httpStatus >= 300) {
    const { param, code, detail } = problemIn(body, httpStatus);
    if (param === "input" && count > 1) return "divide";
    return { status: "rejected", first, count, httpStatus, code, detail };
  }
  const layout = answer.tensors();
  if (!layout || layout.rows !== count || !receipt) throw MALFORMED;
  const [bundle, request] = [answer.bundle(false) ?? "", answer.request()];
  return { status: "embedded", first, count, ...tensors(body, layout), receipt, bundle, request };
}

function halves({ first, items }: Batch): [Batch, Batch] {
  const middle = items.length >> 1;
  return [
    { first, items: items.slice(0, middle) },
    { first: first + middle, items: items.slice(middle) },
  ];
}

/** Splits texts into requests of at most `most` texts. A text that the enclave is likely to refuse gets a separate request. */
async function* cut(
  texts: Iterable<string> | AsyncIterable<string>,
  most: number,
): AsyncGenerator<Batch | Rejected, void, undefined> {
  const encoder = new TextEncoder();
  let first = 0;
  let items: string[] = [];
  let bytes = 0;
  const whole = (): Batch => {
    const made = { first, items };
    first += items.length;
    items = [];
    bytes = 0;
    return made;
  };
  for await (const text of texts) {
    const item = JSON.stringify(wellFormed(text));
    // A UTF-16 unit takes at most three bytes in UTF-8; count exactly only if that bound is too large.
    const length = item.length * 3 <= MOST_BYTES / most ? item.length * 3 : encoder.encode(item).length;
    const alone = text === "" || length > LONG_ITEM;
    if (items.length > 0 && (alone || items.length === most || bytes + length > MOST_BYTES)) yield whole();
    if (length > LONGEST_ITEM) {
      yield tooLong(first, encoder.encode(text).length);
      first += 1;
      continue;
    }
    items.push(item);
    bytes += length + 1;
    if (alone) yield whole();
  }
  if (items.length > 0) yield whole();
}

/** The enclave uses the same code for a text over its own, lower limit. */
function tooLong(first: number, bytes: number): Rejected {
  const detail = `The text has ${bytes} bytes, more than one message of a channel takes; it was not sent.`;
  return { status: "rejected", first, count: 1, httpStatus: 413, code: "TEXT_TOO_LONG", detail };
}

/** Replaces lone surrogates with U+FFFD, as `TextEncoder` does, so that one such text does not fail its whole batch. */
function wellFormed(text: string): string {
  return /\p{Surrogate}/u.test(text) ? new TextDecoder().decode(new TextEncoder().encode(text)) : text;
}

/** Views of the answer's bytes, without a copy. */
function tensors(
  body: Uint8Array<ArrayBuffer>,
  { rows, dimension, values, tokens, truncated }: TensorLayout,
) {
  const { buffer, byteOffset } = body;
  return {
    dimension,
    values: new Float32Array(buffer, byteOffset + values, rows * dimension),
    tokens: new Uint32Array(buffer, byteOffset + tokens, rows),
    truncated: new Uint8Array(buffer, byteOffset + truncated, rows),
    response: body,
  };
}

/** An error in OpenAI's format. `param`: the member of the request that caused it, if there is one. */
function problemIn(body: Uint8Array, httpStatus: number): { param: unknown; code: string; detail: string } {
  let error: unknown;
  try {
    error = (JSON.parse(new TextDecoder().decode(body)) as { error?: unknown }).error;
  } catch {
    // Not an error object: only the status is reported.
  }
  const { param, code, message } = (typeof error === "object" && error !== null ? error : {}) as Record<
    string,
    unknown
  >;
  return {
    param,
    code: typeof code === "string" ? code : `HTTP_${httpStatus}`,
    detail: typeof message === "string" ? message : `The enclave answered with status ${httpStatus}.`,
  };
}

const ABORTED = new StreamError("ABORTED", "The stream was cancelled.", "Send the rest when you like.");
const CLOSED = new StreamError("CHANNEL_CLOSED", "The session has ended.", "Connect again.", {
  transient: true,
});
const JUDGED_ANEW = new StreamError(
  "POLICY_CHANGED",
  "The trust policy was changed, and the enclave is checked again.",
  "Wait: the stream goes on where the enclave is accepted.",
  { transient: true },
);
const OUT_OF_TURN = new StreamError(
  "CHANNEL_OUT_OF_TURN",
  "The peer answered out of turn.",
  "Report this to its operator.",
);
const MALFORMED = new StreamError(
  "MALFORMED_ANSWER",
  "The answer was sealed and signed, yet it holds no vectors for these texts.",
  "Update the older side.",
);
