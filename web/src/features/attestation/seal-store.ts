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
  Reranked,
  RerankRequest,
  SealedRequest,
  Streamed,
  StreamedPart,
} from "../../verifier/messages";
import { onPolicyChange, type PolicyStore, policies as policiesOfTab } from "../policy/policy-store";
import { INITIAL, open, type Seal, type SealEvent, transition } from "./seal";

export interface SealView {
  readonly seal: Seal;
  /** The checks that will run, in state "not run"; empty until the wasm module has started. */
  readonly questions: readonly Row[];
  /** When this tab tries an unreachable service again, in Unix milliseconds; null in every other state. */
  readonly retryAtMs: number | null;
}

/** Interval at which a visible page pings the worker. */
const PULSE_MS = 1_000;

/** Time that *expired* stays visible before the tab re-verifies, unless a request waits. */
const RENEW_AFTER_MS = 1_000;

/** A shorter-lived verification is not renewed automatically: with a wrong clock, renewal would loop. */
const MIN_RENEWED_LIFETIME_MS = 5_000;

/** Pauses before an unreachable service is asked again; the last one repeats. */
const RETRY_AFTER_MS = [5_000, 10_000, 20_000, 40_000, 60_000];

/** `setTimeout` overflows above this. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Owns the worker and the state of the seal. All effects on either go through this store. */
export class SealStore extends Store<SealView> {
  #client: VerifierClient | null = null;
  #attempt = 0;
  #pending: AbortController | null = null;
  #expiry: ReturnType<typeof setTimeout> | undefined;
  #renewal: ReturnType<typeof setTimeout> | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  /** Checks in a row that found the service unreachable. */
  #unreachable = 0;
  #checking: Promise<void> = Promise.resolve();
  /** Time at which the current verification succeeded. */
  #trustedAt = 0;
  readonly #url: string;
  readonly #spawn: (listeners: Listeners) => VerifierClient;
  readonly #policies: PolicyStore;

  constructor(
    url: string,
    spawn: (listeners: Listeners) => VerifierClient = spawnVerifier,
    policies: PolicyStore = policiesOfTab,
  ) {
    super({ seal: INITIAL, questions: [], retryAtMs: null });
    this.#url = url;
    this.#spawn = spawn;
    this.#policies = policies;
    // A verdict under one policy means nothing under another.
    onPolicyChange(policies, () => void this.verify());
  }

  /** Starts the first check, unless one has started already. */
  readonly begin = (): void => {
    if (this.#attempt === 0) void this.verify();
  };

  /** Starts a check, and abandons a running one. */
  readonly verify = (): Promise<void> => {
    clearTimeout(this.#renewal);
    clearTimeout(this.#retry);
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

  /** Sends one sealed request. Refusal, lost connection and cancellation are outcomes, not exceptions. */
  readonly exchange = (request: SealedRequest, signal: AbortSignal): Promise<Exchanged> => {
    return this.#sealed(signal, (client) =>
      client.call("exchange", request, { signal, transfer: [request.body.buffer] }),
    );
  };

  /** Sends texts over a channel; `onPart` receives each answer. Ends as [`exchange`] does. */
  readonly stream = (
    texts: readonly string[],
    model: string,
    signal: AbortSignal,
    onPart: (part: StreamedPart) => void,
  ): Promise<Streamed> => {
    return this.#sealed(signal, (client) => client.call("stream", { texts, model }, { signal, onPart }));
  };

  /** Scores documents for a query with a model of the service. */
  readonly rerank = (request: RerankRequest, signal: AbortSignal): Promise<Reranked> => {
    return this.#sealed(signal, (client) => client.call("rerank", request, { signal }));
  };

  /** `wanted`, if the open session can use it, otherwise the model of the policy; null while nothing can be sent. */
  readonly model = (wanted?: string): string | null => {
    const trust = open(this.get().seal);
    if (trust?.models?.some(({ id }) => id === wanted)) return wanted ?? null;
    return trust?.report.manifest?.modelId ?? null;
  };

  async #sealed<T extends Exchanged | Reranked | Streamed>(
    signal: AbortSignal,
    run: (client: VerifierClient) => Promise<T>,
  ): Promise<T | Extract<Exchanged, { status: "unreachable" }>> {
    // Cancelling does not stop the check: other requests may wait for it.
    if (!open(this.get().seal)) await Promise.race([this.#awaitRenewal(), aborted(signal)]);
    if (signal.aborted) return { status: "unreachable", problem: CANCELLED };
    const attempt = this.#attempt;
    const client = this.#client;
    if (!client || !open(this.get().seal)) {
      return {
        status: "unreachable",
        problem: {
          code: "SEAL_NOT_CLOSED",
          title: "The seal is not closed",
          detail: "Nothing was sent: the enclave is not verified now.",
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

  /** The audit bundle of an exchange as JSON; with salt or text only if requested. */
  readonly bundle = (
    exchange: number,
    disclose: Disclosure,
    response: Uint8Array | null = null,
  ): Promise<string> => {
    return this.#call((client) => client.call("bundle", { exchange, disclose, response }));
  };

  /** Discards the bundles in the worker's memory. */
  readonly forget = async (): Promise<void> => {
    if (this.#client?.alive) await this.#client.call("forget", null);
  };

  /** Checks the evidence again with one bit changed. */
  readonly flip = (evidence: Evidence): Promise<Flipped> => {
    return this.#call((client) =>
      client.call("flip", { evidence, policy: this.#chosenPolicy(), atMs: Date.now() }),
    );
  };

  #chosenPolicy(): string | null {
    return this.#policies.get().chosen?.text ?? null;
  }

  /** Checks that the worker answers and the evidence is still valid. Called by a timer and when the page becomes visible. */
  readonly pulse = (): void => {
    this.#client?.ping();
    const trust = open(this.get().seal);
    if (!trust || Date.now() < trust.validUntilMs) return;
    this.#dispatch({ type: "expired", attempt: this.#attempt });
    if (Date.now() - this.#trustedAt >= MIN_RENEWED_LIFETIME_MS) {
      this.#renewal = setTimeout(this.verify, RENEW_AFTER_MS);
    }
  };

  /** Lets a request during a renewal wait for its outcome instead of failing. */
  async #awaitRenewal(): Promise<void> {
    const { at } = this.get().seal;
    if (at === "expired" && this.#renewal !== undefined) await this.verify();
    else if (at === "checking") await this.#checking;
  }

  /** Runs the pulse while the page is visible. Returns a function that stops it. */
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
    // The loss of the worker concerns the current check, whichever it is.
    return {
      ready: ({ questions, builtIn }) => {
        this.#policies.builtIn(builtIn);
        this.change({ questions });
      },
      trust: (trust) => {
        this.#trustedAt = Date.now();
        clearTimeout(this.#renewal);
        this.#dispatch({ type: "reattested", attempt: this.#attempt, trust });
      },
      lost: (problem) => this.#dispatch({ type: "lost", attempt: this.#attempt, problem }),
    };
  }

  #dispatch(event: SealEvent): void {
    const seal = transition(this.get().seal, event);
    if (seal === this.get().seal) return;
    this.#scheduleExpiry(seal);
    this.change({ seal, retryAtMs: this.#scheduleRetry(seal) });
  }

  /** Schedules the next attempt at an unreachable service, and returns its time. */
  #scheduleRetry(seal: Seal): number | null {
    clearTimeout(this.#retry);
    if (seal.at === "checking") return null;
    if (seal.at !== "unreachable") {
      this.#unreachable = 0;
      return null;
    }
    const pause = RETRY_AFTER_MS[Math.min(this.#unreachable, RETRY_AFTER_MS.length - 1)] ?? 0;
    this.#unreachable += 1;
    this.#retry = setTimeout(this.verify, pause);
    return Date.now() + pause;
  }

  /** Schedules a pulse at the expiry. */
  #scheduleExpiry(seal: Seal): void {
    clearTimeout(this.#expiry);
    const trust = open(seal);
    if (!trust) return;
    const left = Math.max(0, Math.min(trust.validUntilMs - Date.now(), MAX_TIMER_MS));
    this.#expiry = setTimeout(this.pulse, left);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
