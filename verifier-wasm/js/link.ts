import type { ChannelOutcome } from "../pkg/clearseal_verifier.js";
import { StreamError } from "./types.js";
import type { Channel, Opened } from "./verifier.js";

/** Subset of WebSocket that a link uses, so that tests can replace it. */
export interface Socket {
  binaryType: string;
  /** Absent in workerd and happy-dom. */
  readonly bufferedAmount?: number;
  send(bytes: Uint8Array<ArrayBuffer>): void;
  close(): void;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: (() => void) | null;
  onclose: (() => void) | null;
}

/** Sending pauses while the socket has buffered more than this many bytes. */
const MAX_BUFFERED_BYTES = 1024 * 1024;

/** Bytes passed to the module at a time. A relay may send WebSocket messages of any length. */
const CHUNK_BYTES = 256 * 1024;

/** Minimum rate of an incomplete frame, in bytes per millisecond: each received byte extends the timeout accordingly. */
const MIN_BYTES_PER_MS = 8.192;

/** Polling interval of a full socket: WebSocket has no event for it. */
const DRAIN_MS = 20;

export interface LinkOptions {
  /** Timeout for the next authenticated frame, in milliseconds; an incomplete frame extends it, at 8 KiB per second. */
  readonly patienceMs: number;
  readonly now: () => number;
  /** Called after every change of state. */
  readonly wake: () => void;
}

/** One connection: a socket and the channel over it. */
export class Link {
  readonly #socket: Socket;
  readonly #channel: Channel;
  readonly #options: LinkOptions;
  readonly #answers: Opened[] = [];
  #failure: StreamError | null = null;
  #opened = false;
  #closed = false;
  #connected = false;
  #timeout: ReturnType<typeof setTimeout> | undefined;
  /** Number of authenticated frames. */
  #frames = 0;
  /** Time of the last one. */
  #lastFrameAt = 0;
  /** Bytes received since then. */
  #bytes = 0;

  constructor(socket: Socket, channel: Channel, options: LinkOptions) {
    this.#socket = socket;
    this.#channel = channel;
    this.#options = options;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.#connected = true;
      this.#resetTimeout();
      this.#send(channel.hello());
    };
    socket.onmessage = ({ data }) => this.#receive(data);
    // The event has no details; the close event that follows ends the link.
    socket.onerror = () => {};
    socket.onclose = () => this.#disconnected();
    this.#resetTimeout();
  }

  /** The session is established. */
  get opened(): boolean {
    return this.#opened;
  }

  /** The host has answered the upgrade. */
  get connected(): boolean {
    return this.#connected;
  }

  /** Why the link failed. */
  get failure(): StreamError | null {
    return this.#failure;
  }

  /** The enclave closed the session after answering every request. */
  get closed(): boolean {
    return this.#closed;
  }

  /** The next answer in order. The caller frees it. */
  take(): Opened | undefined {
    return this.#answers.shift();
  }

  /** Whether more may be sent now. If not, the link wakes its owner later. */
  hasRoom(): boolean {
    if (!this.#full) return true;
    setTimeout(this.#options.wake, DRAIN_MS);
    return false;
  }

  get #full(): boolean {
    return (this.#socket.bufferedAmount ?? 0) >= MAX_BUFFERED_BYTES;
  }

  /** Sends one request. Throws if it cannot be sealed. */
  ask(method: string, path: string, headers: string[], content: Uint8Array): void {
    const sealed = this.#channel.seal(method, path, headers, content, this.#options.now());
    const bytes = sealed.takeBytes();
    const refusal = bytes ? undefined : sealed.refusal();
    sealed.free();
    if (bytes) this.#send(bytes);
    else throw failureOf(refusal) ?? BROKEN;
  }

  /** Closes the session if it is open, and frees everything. */
  end(): void {
    clearTimeout(this.#timeout);
    if (this.#opened && !this.#failure && !this.#closed) {
      const sealed = this.#channel.close();
      const bytes = sealed.takeBytes();
      sealed.free();
      if (bytes) this.#send(bytes);
    }
    this.#socket.onopen = this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket.close();
    for (const answer of this.#answers.splice(0)) answer.free();
    this.#channel.free();
  }

  #receive(data: unknown): void {
    if (this.#failure || this.#closed) return;
    const bytes = bytesOf(data);
    if (!bytes) {
      this.#fail(typeof data === "string" ? TEXT : NOT_BYTES);
      return;
    }
    for (let at = 0; at < bytes.length && !this.#failure; at += CHUNK_BYTES) {
      this.#channel.feed(bytes.subarray(at, at + CHUNK_BYTES));
      this.#drain();
    }
    this.#countReceived(bytes.length);
    this.#options.wake();
  }

  /** Only authenticated frames reset the timeout: a relay can send arbitrary bytes. */
  #countReceived(count: number): void {
    if (this.#failure || this.#closed) return;
    const frames = this.#channel.framesOpened();
    if (frames !== this.#frames) {
      this.#frames = frames;
      this.#resetTimeout();
    } else {
      this.#bytes += count;
      this.#armTimeout();
    }
  }

  #drain(): void {
    for (;;) {
      const event = this.#channel.next(this.#options.now());
      if (!event) return;
      const outcome = event.outcome();
      switch (outcome.status) {
        case "opened": {
          const bytes = event.takeBytes();
          if (bytes) this.#send(bytes);
          this.#opened = true;
          this.#resetTimeout();
          break;
        }
        case "answered": {
          const answer = event.takeAnswer();
          if (answer) this.#answers.push(answer);
          break;
        }
        case "closed":
          this.#closed = true;
          clearTimeout(this.#timeout);
          break;
        case "failed":
          this.#fail(failureOf(outcome) ?? BROKEN);
      }
      event.free();
    }
  }

  #disconnected(): void {
    if (this.#failure || this.#closed) return;
    if (!this.#connected) {
      this.#fail(NO_CONNECTION);
      return;
    }
    const event = this.#channel.connectionEnded();
    const failure = event ? failureOf(event.outcome()) : null;
    event?.free();
    this.#fail(failure ?? BROKEN);
  }

  #fail(failure: StreamError): void {
    this.#failure ??= failure;
    clearTimeout(this.#timeout);
    this.#options.wake();
  }

  #resetTimeout(): void {
    this.#lastFrameAt = performance.now();
    this.#bytes = 0;
    this.#armTimeout();
  }

  #armTimeout(): void {
    clearTimeout(this.#timeout);
    const end = this.#lastFrameAt + this.#options.patienceMs + this.#bytes / MIN_BYTES_PER_MS;
    this.#timeout = setTimeout(() => this.#fail(this.#silence()), Math.max(0, end - performance.now()));
  }

  #silence(): StreamError {
    if (!this.#connected) return socketSilent("did not open");
    return this.#full ? socketSilent(`still holds ${this.#socket.bufferedAmount} bytes`) : SILENT;
  }

  #send(bytes: Uint8Array): void {
    // A copy outside wasm memory, which the socket may keep.
    this.#socket.send(bytes as Uint8Array<ArrayBuffer>);
  }
}

/** Also of another realm, such as that of an EdgeVM or of jsdom, where `instanceof` fails. */
function bytesOf(data: unknown): Uint8Array | null {
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const isBuffer = Object.prototype.toString.call(data) === "[object ArrayBuffer]";
  return isBuffer ? new Uint8Array(data as ArrayBuffer) : null;
}

function failureOf(outcome: ChannelOutcome | undefined): StreamError | null {
  if (outcome?.status !== "failed") return null;
  const { code, message, remedy, transient, stale } = outcome;
  return new StreamError(code, message, remedy, { transient, stale });
}

const SILENT = new StreamError(
  "CHANNEL_SILENT",
  "The connection was silent for too long.",
  "Try again; if it goes on, the host or the enclave is overloaded or down.",
  { transient: true },
);
/** Silence that the socket may have caused: it never opened, or has not sent what it was given. */
function socketSilent(why: string): StreamError {
  const name = globalThis.navigator?.userAgent;
  return new StreamError(
    "CHANNEL_SILENT",
    `The connection was silent for too long: its socket ${why}.`,
    `Try again; if it goes on, check the network, or pass another \`webSocket\` than that of this runtime${name ? ` (${name})` : ""}.`,
    { transient: true },
  );
}
const TEXT = new StreamError(
  "CHANNEL_MALFORMED",
  "The host sent a text message instead of bytes.",
  "Suspect the relay.",
);
const NOT_BYTES = new StreamError(
  "RUNTIME_LACKS",
  "The WebSocket of this runtime ignores `binaryType`: it gives messages in a form that cannot be read at once.",
  "Pass another WebSocket as `webSocket`.",
);
const NO_CONNECTION = new StreamError(
  "CHANNEL_NO_CONNECTION",
  "The connection failed: the host cannot be reached, or it does not offer channels.",
  "Check the network; a proxy in between has to allow WebSocket.",
  { transient: true },
);
const BROKEN = new StreamError(
  "CHANNEL_CUT_OFF",
  "The connection ended without a close, so answers may be missing.",
  "Connect again.",
  { transient: true },
);
