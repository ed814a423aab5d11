import type { TensorLayout } from "../pkg/clearseal_verifier.js";
import { Link, type Socket } from "./link.js";
import { unlessAborted } from "./transport.js";
import { StreamError, type StreamedBatch, type StreamOptions, type StreamProgress } from "./types.js";
import type { Enclave, Opened } from "./verifier.js";
import { pause, Wake } from "./wake.js";

/** Texts in one request, and so under one receipt. */
const MOST_ITEMS = 256;
/** Bytes of one request as JSON, well below what an enclave takes (512 KiB, padding included). */
const MOST_BYTES = 384 * 1024;
/** Requests under way: an enclave works on two of a channel, and the next ones travel meanwhile. */
const WINDOW = 4;
/** An enclave that computes sends a sign of life every 10 seconds. */
const PATIENCE_MS = 30_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
/** Connections in a row that may end without an answer. */
const ATTEMPTS = 10;

/** What a stream needs of its session. */
export interface StreamHost {
  readonly channelUrl: (enclave: Enclave) => string;
  readonly now: () => number;
  /** The enclave to use now, verified and within its validity. Throws a {@link StreamError} where there is none. */
  enclave(): Promise<Enclave>;
  /** Aborted where the trust policy changes: nothing more is sent over the connections of before. */
  change(): AbortSignal;
  /** Lets a policy that comes from a source be asked for, where that is due. */
  followPolicy(): void;
  /** Verifies again, in place of `used`. Throws a {@link StreamError} where that comes to nothing. */
  renew(used: Enclave): Promise<void>;
  readonly model: () => string;
  /** What makes the socket; tests replace it. */
  readonly socket: (url: string) => Socket;
}

interface Batch {
  readonly first: number;
  readonly count: number;
  readonly body: Uint8Array;
}

/**
 * Sends every text that comes, and hands out every answer, once and in order, over as many connections as it takes. What
 * was not answered when a connection ended is sent again over the next one. Refused evidence and forged bytes end the
 * stream: no bad network explains them.
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
  readonly #batches: AsyncIterator<Batch>;
  readonly #wake = new Wake();
  readonly #taken = new Wake();
  readonly #stop = new AbortController();
  readonly #patienceMs: number;
  readonly #window: number;
  /** Not answered. The front is the next to be answered. */
  readonly #inFlight: Batch[] = [];
  /** Answered, and not handed out yet. */
  readonly #ready: StreamedBatch[] = [];
  /** Read from the source, and not sent yet. */
  #read: Batch | null = null;
  #reading = false;
  #ended = false;
  #failure: unknown = null;
  #finished = false;
  #answered = 0;
  #connections = 0;

  constructor(host: StreamHost, texts: Iterable<string> | AsyncIterable<string>, options: StreamOptions) {
    this.#host = host;
    this.#options = options;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
    this.#window = Math.max(1, options.window ?? WINDOW);
    this.#batches = cut(
      texts,
      host.model(),
      Math.min(MOST_ITEMS, Math.max(1, options.batchItems ?? MOST_ITEMS)),
    );
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
      // Not awaited: behind a `next()` that is pending it waits for the source, which may have nothing to yield for ever. How
      // the source takes its end is no longer this stream's matter.
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
        // A connection that was let go while nothing was due, by whichever end.
        if (this.#inFlight.length === 0) {
          failures = 0;
          continue;
        }
        failures = this.#answered > before ? 1 : failures + 1;
        if (failures > (this.#options.attempts ?? ATTEMPTS)) throw cause;
        // Full jitter: clients that lost one server do not come back at once.
        const limit = Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), LONGEST_PAUSE_MS);
        await pause(Math.random() * limit, this.#stop.signal);
      }
    }
  }

  /**
   * Waits until a batch is there that may be sent: no connection is made before, nor while the reader takes nothing. False where
   * there will be none.
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

  /** One connection, until everything is answered or it fails. */
  async #overOne(): Promise<void> {
    // Before the enclave is asked for: a change meanwhile counts as one after it.
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
      // It proved itself again, so that the next connection may work.
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
        this.#accept(answer);
        sent -= 1;
      }
      if (link.failure) throw link.failure;
      if (link.closed) throw CLOSED;
      if (link.opened) {
        while (sent < this.#inFlight.length && link.hasRoom()) {
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

  /** What is under way and what its reader has not taken yet are bounded together. */
  #mayTakeMore(): boolean {
    return this.#inFlight.length < this.#window && this.#ready.length < this.#window;
  }

  /** What was read ahead goes under way. */
  #takeNext(): boolean {
    const batch = this.#read;
    this.#read = null;
    if (batch) this.#inFlight.push(batch);
    return batch !== null;
  }

  #ask(link: Link, batch: Batch | undefined): void {
    if (batch) link.ask("POST", "/v1/embeddings", ["content-type", "application/json"], batch.body);
  }

  #accept(answer: Opened): void {
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
      const { first, count } = batch;
      if (httpStatus >= 300) {
        this.#ready.push({ status: "rejected", first, count, httpStatus, ...problemIn(body, httpStatus) });
      } else {
        const layout = answer.tensors();
        if (!layout || layout.rows !== count || !outcome.receipt) throw MALFORMED;
        const { receipt } = outcome;
        const [bundle, request] = [answer.bundle(false) ?? "", answer.request()];
        this.#ready.push({
          status: "embedded",
          first,
          count,
          ...tensors(body, layout),
          receipt,
          bundle,
          request,
        });
      }
      this.#inFlight.shift();
      this.#answered += 1;
    } finally {
      answer.free();
    }
    this.#taken.fire();
    const progress: StreamProgress = {
      items: batch.first + batch.count,
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
        // Of the texts' own source: nothing of it is in this stream's power.
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

/** Cuts texts into requests. */
async function* cut(
  texts: Iterable<string> | AsyncIterable<string>,
  model: string,
  most: number,
): AsyncGenerator<Batch, void, undefined> {
  const encoder = new TextEncoder();
  const around = JSON.stringify({ model, encoding_format: "tensors", input: [] }).slice(0, -2);
  let first = 0;
  let items: string[] = [];
  let bytes = 0;
  const whole = (): Batch => {
    const made = { first, count: items.length, body: encoder.encode(`${around}${items.join(",")}]}`) };
    first += items.length;
    items = [];
    bytes = 0;
    return made;
  };
  for await (const text of texts) {
    const item = JSON.stringify(wellFormed(text));
    // In UTF-8 a UTF-16 unit has three bytes at most; only where that is too many are they counted.
    const length = item.length * 3 <= MOST_BYTES / most ? item.length * 3 : encoder.encode(item).length;
    if (items.length > 0 && (items.length === most || bytes + length > MOST_BYTES)) yield whole();
    items.push(item);
    bytes += length + 1;
  }
  if (items.length > 0) yield whole();
}

/** Half of a surrogate pair is no text: it becomes U+FFFD, as `TextEncoder` writes it, so that it fails no other text of its batch. */
function wellFormed(text: string): string {
  return /\p{Surrogate}/u.test(text) ? new TextDecoder().decode(new TextEncoder().encode(text)) : text;
}

/** Views of the answer's own bytes: nothing is copied. */
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

function problemIn(body: Uint8Array, httpStatus: number): { code: string; detail: string } {
  let error: unknown;
  try {
    error = (JSON.parse(new TextDecoder().decode(body)) as { error?: unknown }).error;
  } catch {
    // No error object; the status alone is reported.
  }
  const { code, message } = (typeof error === "object" && error !== null ? error : {}) as Record<
    string,
    unknown
  >;
  return {
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
