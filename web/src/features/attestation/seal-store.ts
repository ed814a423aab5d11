import type { Evidence, Row } from "@clearseal/verifier";
import { Store } from "../../ui/store";
import {
  CANCELLED,
  CallFailed,
  type Listeners,
  spawnVerifier,
  type VerifierClient,
} from "../../verifier/client";
import type {
  Disclosure,
  Exchanged,
  Flipped,
  SealedRequest,
  Streamed,
  StreamedPart,
} from "../../verifier/messages";
import { onChoice, type PolicyStore, policies as policiesOfTab } from "../policy/policy-store";
import { open, type Seal, type SealEvent, transition, UNASKED } from "./seal";

export interface SealView {
  readonly seal: Seal;
  /** What will be asked, none of it run; empty until the wasm module is up. */
  readonly questions: readonly Row[];
}

/** How often a visible page asks the worker for a sign of life. */
const PULSE_MS = 1_000;

/** How long *expired* stays to be seen before the enclave is asked anew, unless something waits to be sent. */
const RENEW_AFTER_MS = 1_000;

/** A proof that lived for less than this is not renewed by itself: with a clock that is wrong it never would end. */
const SHORTEST_LIFE_MS = 5_000;

/** `setTimeout` wraps around above this. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Owns the worker and the state of the seal; everything that has an effect on either goes through here. */
export class SealStore extends Store<SealView> {
  #client: VerifierClient | null = null;
  #attempt = 0;
  #pending: AbortController | null = null;
  #expiry: ReturnType<typeof setTimeout> | undefined;
  #renewal: ReturnType<typeof setTimeout> | undefined;
  #checking: Promise<void> = Promise.resolve();
  /** When the present proof was found good. */
  #trustedAt = 0;
  readonly #url: string;
  readonly #spawn: (listeners: Listeners) => VerifierClient;
  readonly #policies: PolicyStore;

  constructor(
    url: string,
    spawn: (listeners: Listeners) => VerifierClient = spawnVerifier,
    policies: PolicyStore = policiesOfTab,
  ) {
    super({ seal: UNASKED, questions: [] });
    this.#url = url;
    this.#spawn = spawn;
    this.#policies = policies;
    // What was found under one policy says nothing under another.
    onChoice(policies, () => void this.verify());
  }

  /** The first check; nothing where one was begun already. */
  readonly begin = (): void => {
    if (this.#attempt === 0) void this.verify();
  };

  /** Begins a check, and abandons the one that is running. */
  readonly verify = (): Promise<void> => {
    clearTimeout(this.#renewal);
    this.#renewal = undefined;
    this.#checking = this.#verify();
    return this.#checking;
  };

  async #verify(): Promise<void> {
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.#pending?.abort();
    this.#pending = new AbortController();
    const { signal } = this.#pending;
    this.#dispatch({ type: "asked", attempt });
    if (!this.#client?.alive) this.#client = this.#spawn(this.#listeners());
    try {
      const connected = await this.#client.call(
        "connect",
        { url: this.#url, policy: this.#chosenPolicy() },
        { signal },
      );
      this.#trustedAt = Date.now();
      this.#dispatch({ type: "answered", attempt, connected });
    } catch (cause) {
      if (!(cause instanceof CallFailed)) throw cause;
      this.#dispatch({ type: "failed", attempt, problem: cause.problem });
    }
  }

  /** Sends one sealed request. A refusal or a lost connection is an outcome; only cancelling rejects. */
  readonly exchange = (request: SealedRequest, signal: AbortSignal): Promise<Exchanged> => {
    return this.#sealed(signal, (client) =>
      client.call("exchange", request, { signal, transfer: [request.body.buffer] }),
    );
  };

  /** Sends texts over a channel; `onPart` gets each answer as it comes. Ends as [`exchange`] does. */
  readonly stream = (
    texts: readonly string[],
    model: string,
    signal: AbortSignal,
    onPart: (part: StreamedPart) => void,
  ): Promise<Streamed> => {
    return this.#sealed(signal, (client) => client.call("stream", { texts, model }, { signal, onPart }));
  };

  /** Model of the open session; null while nothing can be sent. */
  readonly model = (): string | null => open(this.get().seal)?.report.manifest?.modelId ?? null;

  async #sealed<T extends Exchanged | Streamed>(
    signal: AbortSignal,
    run: (client: VerifierClient) => Promise<T>,
  ): Promise<T | Extract<Exchanged, { status: "unreachable" }>> {
    // The check goes on for whoever else waits for it.
    if (!open(this.get().seal)) await Promise.race([this.#renewed(), aborted(signal)]);
    if (signal.aborted) return { status: "unreachable", problem: CANCELLED };
    const attempt = this.#attempt;
    const client = this.#client;
    if (!client || !open(this.get().seal)) {
      return {
        status: "unreachable",
        problem: {
          code: "SEAL_NOT_CLOSED",
          title: "The seal is not closed",
          detail: "Nothing was sent: the enclave is not verified at this moment.",
          remedy: "Verify again, then send the rest.",
        },
      };
    }
    try {
      const outcome = await run(client);
      if (outcome.status === "refused" && outcome.report) {
        this.#dispatch({ type: "broken", attempt, report: outcome.report });
      }
      return outcome;
    } catch (cause) {
      if (cause instanceof CallFailed) return { status: "unreachable", problem: cause.problem };
      throw cause;
    }
  }

  /** The audit bundle of an exchange, as JSON; with salt or text only where asked for. */
  readonly bundle = (
    exchange: number,
    disclose: Disclosure,
    response: Uint8Array | null = null,
  ): Promise<string> => {
    return this.#call((client) => client.call("bundle", { exchange, disclose, response }));
  };

  /** Lets go of the bundles kept so far. */
  readonly forget = async (): Promise<void> => {
    if (this.#client?.alive) await this.#client.call("forget", null);
  };

  /** Judges the evidence again with one bit changed. */
  readonly flip = (evidence: Evidence): Promise<Flipped> => {
    return this.#call((client) =>
      client.call("flip", { evidence, policy: this.#chosenPolicy(), atMs: Date.now() }),
    );
  };

  #chosenPolicy(): string | null {
    return this.#policies.get().chosen?.text ?? null;
  }

  /** Asks whether worker and evidence still stand; called on a timer and when the page becomes visible. */
  readonly pulse = (): void => {
    this.#client?.ping();
    const trust = open(this.get().seal);
    if (!trust || Date.now() < trust.validUntilMs) return;
    this.#dispatch({ type: "expired", attempt: this.#attempt });
    if (Date.now() - this.#trustedAt >= SHORTEST_LIFE_MS) {
      this.#renewal = setTimeout(this.verify, RENEW_AFTER_MS);
    }
  };

  /** A request that comes while the proof is being renewed waits for the outcome instead of failing. */
  async #renewed(): Promise<void> {
    const { at } = this.get().seal;
    if (at === "expired" && this.#renewal !== undefined) await this.verify();
    else if (at === "checking") await this.#checking;
  }

  /** Keeps the pulse going while the page can be seen. Returns what stops it. */
  readonly watch = (page: Document): (() => void) => {
    const tick = () => {
      if (page.visibilityState === "visible") this.pulse();
    };
    const timer = setInterval(tick, PULSE_MS);
    page.addEventListener("visibilitychange", tick);
    return () => {
      clearInterval(timer);
      page.removeEventListener("visibilitychange", tick);
    };
  };

  #call<T>(run: (client: VerifierClient) => Promise<T>): Promise<T> {
    if (this.#client) return run(this.#client);
    return Promise.reject(
      new CallFailed({
        code: "VERIFIER_ABSENT",
        title: "The verifier is not running",
        detail: "The background worker has not been started.",
        remedy: "Verify again.",
      }),
    );
  }

  #listeners(): Listeners {
    // A worker answers for every check that was made with it, so its loss concerns whichever is current now.
    return {
      ready: ({ questions, builtIn }) => {
        this.#policies.builtIn(builtIn);
        this.change({ questions });
      },
      trust: (trust) => {
        this.#trustedAt = Date.now();
        clearTimeout(this.#renewal);
        this.#dispatch({ type: "attested-anew", attempt: this.#attempt, trust });
      },
      lost: (problem) => this.#dispatch({ type: "lost", attempt: this.#attempt, problem }),
    };
  }

  #dispatch(event: SealEvent): void {
    const seal = transition(this.get().seal, event);
    if (seal === this.get().seal) return;
    this.#awaitEnd(seal);
    this.change({ seal });
  }

  /** Sees to it that a proof's end is noticed. */
  #awaitEnd(seal: Seal): void {
    clearTimeout(this.#expiry);
    const trust = open(seal);
    if (!trust) return;
    const left = Math.max(0, Math.min(trust.validUntilMs - Date.now(), LONGEST_TIMER_MS));
    this.#expiry = setTimeout(this.pulse, left);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
