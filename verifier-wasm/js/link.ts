import type { ChannelOutcome } from "../pkg/clearseal_verifier.js";
import { StreamError } from "./types.js";
import type { Channel, Opened } from "./verifier.js";

/** The part of a WebSocket that a link uses, so that tests can stand in for it. */
export interface Socket {
  binaryType: string;
  readonly bufferedAmount: number;
  send(bytes: Uint8Array<ArrayBuffer>): void;
  close(): void;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: (() => void) | null;
  onclose: (() => void) | null;
}

/** More than this in the socket: what is sent next waits until less is. */
const MOST_BUFFERED = 1024 * 1024;

/** What is given to the module at once, bytes. A relay may put as much as it likes into one message. */
const PIECE = 256 * 1024;

/** Slowest rate of a frame that is on its way, bytes a millisecond: each byte of it buys its part of a second beyond the patience. */
const SLOWEST = 8.192;

/** How often a full socket is asked whether it still is: there is no event for it. */
const DRAIN_MS = 20;

export interface LinkOptions {
  /** Longest wait for a frame that opens, milliseconds; a frame on its way has longer, at 8 KiB a second. */
  readonly patienceMs: number;
  readonly now: () => number;
  /** Called where something changed. */
  readonly wake: () => void;
}

/** One connection: a socket, and the channel over it. */
export class Link {
  readonly #socket: Socket;
  readonly #channel: Channel;
  readonly #options: LinkOptions;
  readonly #answers: Opened[] = [];
  #failure: StreamError | null = null;
  #opened = false;
  #closed = false;
  #connected = false;
  #silence: ReturnType<typeof setTimeout> | undefined;
  /** Frames that have opened, when the last one did, and the bytes that came since. */
  #frames = 0;
  #heardAt = 0;
  #bytes = 0;

  constructor(socket: Socket, channel: Channel, options: LinkOptions) {
    this.#socket = socket;
    this.#channel = channel;
    this.#options = options;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.#connected = true;
      this.#heard();
      this.#send(channel.hello());
    };
    socket.onmessage = ({ data }) => this.#receive(data);
    // A browser says no more than that it failed; the close that follows ends the link.
    socket.onerror = () => {};
    socket.onclose = () => this.#disconnected();
    this.#heard();
  }

  /** The session exists. */
  get opened(): boolean {
    return this.#opened;
  }

  /** The host has answered the upgrade. */
  get connected(): boolean {
    return this.#connected;
  }

  /** Why the link is over. */
  get failure(): StreamError | null {
    return this.#failure;
  }

  /** The enclave closed it, with everything answered. */
  get closed(): boolean {
    return this.#closed;
  }

  /** The next answer in order, which its caller frees. */
  take(): Opened | undefined {
    return this.#answers.shift();
  }

  /** Whether more may be sent now. Where not, the link wakes its owner later. */
  hasRoom(): boolean {
    if (this.#socket.bufferedAmount < MOST_BUFFERED) return true;
    setTimeout(this.#options.wake, DRAIN_MS);
    return false;
  }

  /** Sends one request. Throws where it is refused before it leaves. */
  ask(method: string, path: string, headers: string[], content: Uint8Array): void {
    const sealed = this.#channel.seal(method, path, headers, content, this.#options.now());
    const bytes = sealed.takeBytes();
    const refusal = bytes ? undefined : sealed.refusal();
    sealed.free();
    if (bytes) this.#send(bytes);
    else throw failureOf(refusal) ?? BROKEN;
  }

  /** Says goodbye, where that is possible, and lets go of everything. */
  end(): void {
    clearTimeout(this.#silence);
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
    if (!(data instanceof ArrayBuffer)) {
      this.#fail(
        new StreamError(
          "CHANNEL_MALFORMED",
          "The host sent text where bytes were due.",
          "Suspect the relay.",
        ),
      );
      return;
    }
    const bytes = new Uint8Array(data);
    for (let at = 0; at < bytes.length && !this.#failure; at += PIECE) {
      this.#channel.feed(bytes.subarray(at, at + PIECE));
      this.#drain();
    }
    this.#listen(bytes.length);
    this.#options.wake();
  }

  /** Only what opens is a sign of life: a relay can send bytes too. */
  #listen(count: number): void {
    if (this.#failure || this.#closed) return;
    const frames = this.#channel.framesOpened();
    if (frames !== this.#frames) {
      this.#frames = frames;
      this.#heard();
    } else {
      this.#bytes += count;
      this.#wait();
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
          this.#heard();
          break;
        }
        case "answered": {
          const answer = event.takeAnswer();
          if (answer) this.#answers.push(answer);
          break;
        }
        case "closed":
          this.#closed = true;
          clearTimeout(this.#silence);
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
    clearTimeout(this.#silence);
    this.#options.wake();
  }

  #heard(): void {
    this.#heardAt = performance.now();
    this.#bytes = 0;
    this.#wait();
  }

  #wait(): void {
    clearTimeout(this.#silence);
    const end = this.#heardAt + this.#options.patienceMs + this.#bytes / SLOWEST;
    this.#silence = setTimeout(() => this.#fail(SILENT), Math.max(0, end - performance.now()));
  }

  #send(bytes: Uint8Array): void {
    // The module's bytes are a copy in memory of their own, which a socket may keep.
    this.#socket.send(bytes as Uint8Array<ArrayBuffer>);
  }
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
const NO_CONNECTION = new StreamError(
  "CHANNEL_NO_CONNECTION",
  "No connection came about: the host cannot be reached, or it does not join channels.",
  "Check the network; a proxy in between has to let WebSocket pass.",
  { transient: true },
);
const BROKEN = new StreamError(
  "CHANNEL_CUT_OFF",
  "The connection ended without a close, so that what came may not be all.",
  "Connect again.",
  { transient: true },
);
