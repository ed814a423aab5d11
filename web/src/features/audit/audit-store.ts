import type { AuditAppraisal, LogReport, Problem, VectorAppraisal } from "@clearseal/verifier";
import { atService } from "../../app/service";
import { Store } from "../../ui/store";
import { startWorker } from "../../ui/worker";
import { CallFailed, Link, type Port as PortOf } from "../../verifier/link";
import { onPolicyChange, type PolicyStore, policies as policiesOfTab } from "../policy/policy-store";
import { type Audit, type AuditEvent, NOTHING, transition } from "./audit";
import type { Answer, Earlier, Question, Reply, Request, Source } from "./messages";
import script from "./worker.ts?worker&url";

/** The auditor's worker. */
export type Port = PortOf<Request, Reply>;

/** Limit for pasted text. Files are read in pieces and may be longer. */
export const MAX_PASTED_CHARACTERS = 32 * 1024 * 1024;
export const MAX_FILE_BYTES = 256 * 1024 * 1024;

/** Pause in typing after which the text is checked. */
const TYPING_MS = 250;

export interface AuditView {
  /** Content of the text box. */
  readonly typed: string;
  /** Sources to audit; the one without a name is the text box. */
  readonly sources: readonly Source[];
  readonly audit: Audit;
  /** Number of workers that have stopped. Their answers are invalid. */
  readonly losses: number;
}

/** Interval at which a visible page pings the worker, and the number of pings that may stay unanswered. */
const PULSE_MS = 1_000;
const MAX_UNANSWERED_PINGS = 5;

const SILENT: Problem = {
  code: "VERIFIER_SILENT",
  title: "The verifier stopped",
  detail: "The background worker that checks receipts no longer answers, so its verdicts are lost too.",
  remedy: "Check again, which starts a new worker.",
};

/** Owns the sources, the worker that checks them, and the state of both. */
export class AuditStore extends Store<AuditView> {
  #link: Link<Request, Reply> | null = null;
  #attempt = 0;
  #sourceId = 0;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #serverPolicy: Promise<string | null> | null = null;
  /** Callers that wait until the worker has reported its built-in policy, or has stopped. */
  readonly #untilReady: (() => void)[] = [];
  readonly #spawn: () => Port;
  readonly #policy: () => Promise<string | null>;
  readonly #policies: PolicyStore;

  constructor(
    spawn: () => Port = spawnAuditor,
    policy: () => Promise<string | null> = developmentPolicy,
    policies: PolicyStore = policiesOfTab,
  ) {
    super({ typed: "", sources: [], audit: NOTHING, losses: 0 });
    this.#spawn = spawn;
    this.#policy = policy;
    this.#policies = policies;
    // A verdict under one policy means nothing under another.
    onPolicyChange(policies, this.again);
  }

  /** Loads everything that an audit needs, so that it works offline afterwards. */
  readonly prepare = (): void => {
    this.#worker();
    void this.#servedPolicy();
  };

  /** Adds sources, and checks all of them again. */
  readonly add = (sources: readonly { name: string; blob: Blob }[]): void => {
    this.#replace([...this.get().sources, ...sources.map((source) => this.#toSource(source))]);
  };

  /** Sets the content of the text box, and checks it after a pause in typing. */
  readonly type = (typed: string): void => {
    this.change({ typed });
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => {
      const others = this.get().sources.filter((source) => source.name !== "");
      const text = typed.trim() === "" ? [] : [this.#toSource({ name: "", blob: new Blob([typed]) })];
      this.#replace([...text, ...others]);
    }, TYPING_MS);
  };

  /** Replaces all sources. */
  readonly set = (sources: readonly { name: string; blob: Blob }[]): void => {
    this.#clearTyped();
    this.#replace(sources.map((source) => this.#toSource(source)));
  };

  readonly remove = (id: number): void => {
    this.#replace(this.get().sources.filter((source) => source.id !== id));
  };

  readonly clear = (): void => {
    this.#clearTyped();
    this.#replace([]);
  };

  /** Checks the same sources again, with a new worker if the last one has stopped. */
  readonly again = (): void => this.#replace(this.get().sources);

  /** One item in full; null if the worker has stopped, or if the item belongs to another attempt. */
  readonly detail = async (index: number): Promise<AuditAppraisal | null> => {
    const attempt = this.#attempt;
    const reply = await this.#ask((id) => ({ kind: "detail", id, attempt, index }));
    return reply?.kind === "detail" && attempt === this.#attempt ? reply.appraisal : null;
  };

  /** Checks whether a receipt covers a text. */
  readonly open = async (question: Question): Promise<Answer | null> => {
    const reply = await this.#ask((id) => ({ kind: "open", id, question }));
    return reply?.kind === "opened" ? reply.answer : null;
  };

  /** Checks the host's proof that a receipt is in its enclave's log. */
  readonly logged =
    (index: number) =>
    async (inclusion: string, earlier: Earlier | null): Promise<LogReport | null> => {
      const reply = await this.#ask((id) => ({ kind: "log", id, index, inclusion, earlier }));
      return reply?.kind === "logged" ? reply.report : null;
    };

  /** Checks one row of an index with its proof; null if the worker stopped. */
  readonly vector = async (row: string, proof: string): Promise<VectorAppraisal | null> => {
    this.#worker();
    const applied = await this.#currentPolicies();
    if (applied === undefined) return null;
    const reply = await this.#ask((id) => ({ kind: "vector", id, row, proof, ...applied }));
    return reply?.kind === "proven" ? reply.appraisal : null;
  };

  /** Pings the worker while the page is visible. Returns a function that stops it. */
  readonly watch = (page: Document): (() => void) => {
    const timer = setInterval(() => {
      if (page.visibilityState === "visible") this.pulse();
    }, PULSE_MS);
    return () => clearInterval(timer);
  };

  readonly pulse = (): void => this.#link?.ping();

  #clearTyped(): void {
    clearTimeout(this.#typing);
    this.change({ typed: "" });
  }

  #toSource({ name, blob }: { name: string; blob: Blob }): Source {
    this.#sourceId += 1;
    return { id: this.#sourceId, name, blob };
  }

  #replace(sources: readonly Source[]): void {
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.change({ sources });
    if (sources.length === 0) {
      this.#dispatch({ type: "cleared", attempt });
      return;
    }
    this.#dispatch({ type: "asked", attempt });
    void this.#begin(attempt, sources);
  }

  async #begin(attempt: number, sources: readonly Source[]): Promise<void> {
    this.#worker();
    const applied = await this.#currentPolicies();
    if (applied === undefined || attempt !== this.#attempt) return;
    this.#worker().post({ kind: "audit", attempt, sources, ...applied });
  }

  /** The policies in use; undefined if the worker stopped first. */
  async #currentPolicies(): Promise<{ policy: string | null; serverPolicy: string | null } | undefined> {
    const serverPolicy = await this.#servedPolicy();
    if (serverPolicy === undefined) return undefined;
    return { policy: this.#policies.get().chosen?.text ?? null, serverPolicy };
  }

  /** The service's own policy, for a page without a built-in one; undefined if the worker stopped first. */
  async #servedPolicy(): Promise<string | null | undefined> {
    if (this.#policies.get().builtIn === undefined) {
      await new Promise<void>((resolve) => this.#untilReady.push(resolve));
    }
    const { builtIn } = this.#policies.get();
    if (builtIn !== null) return builtIn === undefined ? undefined : null;
    this.#serverPolicy ??= this.#policy();
    const served = await this.#serverPolicy;
    // Retry a failed request next time.
    if (served === null) this.#serverPolicy = null;
    return served;
  }

  /** The worker's answer; null if it stopped, or was not started. */
  async #ask(request: (id: number) => Request): Promise<Reply | null> {
    try {
      return (await this.#link?.ask<Reply>(request).answer) ?? null;
    } catch (cause) {
      if (cause instanceof CallFailed) return null;
      throw cause;
    }
  }

  #worker(): Link<Request, Reply> {
    this.#link ??= new Link(this.#spawn(), {
      onReply: (reply) => this.#receive(reply),
      lost: (problem) => this.#lost(problem),
      silent: SILENT,
      maxUnanswered: MAX_UNANSWERED_PINGS,
    });
    return this.#link;
  }

  #receive(reply: Exclude<Reply, { kind: "pong" | "lost" }>): void {
    switch (reply.kind) {
      case "ready":
        this.#policies.builtIn(reply.builtIn);
        this.#release();
        break;
      case "detail":
      case "opened":
      case "logged":
      case "proven":
        this.#link?.settle(reply.id, reply);
        break;
      default:
        this.#dispatch({ type: "replied", reply });
    }
  }

  #lost(problem: Problem): void {
    this.#link = null;
    this.change({ losses: this.get().losses + 1 });
    this.#dispatch({ type: "lost", problem });
    this.#release();
  }

  #release(): void {
    for (const resolve of this.#untilReady.splice(0)) resolve();
  }

  #dispatch(event: AuditEvent): void {
    const audit = transition(this.get().audit, event);
    if (audit !== this.get().audit) this.change({ audit });
  }
}

function spawnAuditor(): Port {
  return startWorker(script, "clearseal-auditor");
}

/** Time for a host's answer: an audit waits for it, and needs no network otherwise. */
const SERVED_POLICY_MS = 5_000;

/** The policy of a simulating service. Used only if this build has none, and never for *verified*. */
async function developmentPolicy(): Promise<string | null> {
  try {
    const signal = AbortSignal.timeout(SERVED_POLICY_MS);
    const answer = await fetch(atService("/v1/development-policy"), { credentials: "omit", signal });
    return answer.ok ? await answer.text() : null;
  } catch {
    // Offline, or no service: only a built-in or an added policy can apply.
    return null;
  }
}
