import type { AuditJudgement, LogReport, Problem, VectorJudgement } from "@clearseal/verifier";
import { atService } from "../../app/service";
import { Store } from "../../ui/store";
import { CallFailed, Link, type Port as PortOf } from "../../verifier/link";
import { onChoice, type PolicyStore, policies as policiesOfTab } from "../policy/policy-store";
import { type Audit, type AuditEvent, NOTHING, transition } from "./audit";
import type { Answer, Earlier, Question, Reply, Request, Source } from "./messages";

/** The auditor's worker. */
export type Port = PortOf<Request, Reply>;

/** What can be pasted; a file is read piece by piece and may be longer. */
export const MAX_PASTED_CHARACTERS = 32 * 1024 * 1024;
export const MAX_FILE_BYTES = 256 * 1024 * 1024;

/** A pause in typing this long means that it is complete for now. */
const TYPING_MS = 250;

export interface AuditView {
  /** What is in the text box. */
  readonly typed: string;
  /** What is audited; the one without a name is the text box. */
  readonly sources: readonly Source[];
  readonly audit: Audit;
  /** How many workers have stopped: what one of them said counts no more. */
  readonly losses: number;
}

/** How often a visible page asks the worker for a sign of life, and how many may stay unanswered. */
const PULSE_MS = 1_000;
const PATIENCE = 5;

const SILENT: Problem = {
  code: "VERIFIER_SILENT",
  title: "The verifier stopped",
  detail: "The background worker that judges receipts no longer answers, so its verdicts are gone too.",
  remedy: "Judge again: that starts a fresh one.",
};

/** Owns what is audited, the worker that judges it, and the state of both. */
export class AuditStore extends Store<AuditView> {
  #link: Link<Request, Reply> | null = null;
  #attempt = 0;
  #sourceId = 0;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #serverPolicy: Promise<string | null> | null = null;
  /** Callers that wait until the worker has said which policy it has built in, or has stopped. */
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
    // What was found under one policy says nothing under another.
    onChoice(policies, this.again);
  }

  /** Loads what an audit needs, so that it works when the network is gone afterwards. */
  readonly prepare = (): void => {
    this.#worker();
    void this.#servedPolicy();
  };

  /** Adds sources to what is audited, and judges all of it. */
  readonly add = (sources: readonly { name: string; blob: Blob }[]): void => {
    this.#replace([...this.get().sources, ...sources.map((source) => this.#named(source))]);
  };

  /** Takes over what is in the text box, and judges once its writer pauses. */
  readonly type = (typed: string): void => {
    this.change({ typed });
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => {
      const others = this.get().sources.filter((source) => source.name !== "");
      const text = typed.trim() === "" ? [] : [this.#named({ name: "", blob: new Blob([typed]) })];
      this.#replace([...text, ...others]);
    }, TYPING_MS);
  };

  /** Audits these and nothing else. */
  readonly set = (sources: readonly { name: string; blob: Blob }[]): void => {
    this.#forgetTyped();
    this.#replace(sources.map((source) => this.#named(source)));
  };

  readonly remove = (id: number): void => {
    this.#replace(this.get().sources.filter((source) => source.id !== id));
  };

  readonly clear = (): void => {
    this.#forgetTyped();
    this.#replace([]);
  };

  /** Judges the same again, with a fresh worker where the last one is gone. */
  readonly again = (): void => this.#replace(this.get().sources);

  /** One item in full; null where it is gone, where the worker is, or where it belongs to another attempt. */
  readonly detail = async (index: number): Promise<AuditJudgement | null> => {
    const attempt = this.#attempt;
    const reply = await this.#ask((id) => ({ kind: "detail", id, attempt, index }));
    return reply?.kind === "detail" && attempt === this.#attempt ? reply.judgement : null;
  };

  /** Whether a receipt is about a text. */
  readonly open = async (question: Question): Promise<Answer | null> => {
    const reply = await this.#ask((id) => ({ kind: "open", id, question }));
    return reply?.kind === "opened" ? reply.answer : null;
  };

  /** Whether a receipt is in its enclave's log, by the host's proof. */
  readonly logged =
    (index: number) =>
    async (inclusion: string, earlier: Earlier | null): Promise<LogReport | null> => {
      const reply = await this.#ask((id) => ({ kind: "log", id, index, inclusion, earlier }));
      return reply?.kind === "logged" ? reply.report : null;
    };

  /** One row of an index, by its proof; null where the worker stopped. */
  readonly vector = async (row: string, proof: string): Promise<VectorJudgement | null> => {
    this.#worker();
    const judges = await this.#judges();
    if (judges === undefined) return null;
    const reply = await this.#ask((id) => ({ kind: "vector", id, row, proof, ...judges }));
    return reply?.kind === "proven" ? reply.judgement : null;
  };

  /** Keeps an eye on the worker while the page can be seen. Returns what ends that. */
  readonly watch = (page: Document): (() => void) => {
    const timer = setInterval(() => {
      if (page.visibilityState === "visible") this.pulse();
    }, PULSE_MS);
    return () => clearInterval(timer);
  };

  readonly pulse = (): void => this.#link?.ping();

  #forgetTyped(): void {
    clearTimeout(this.#typing);
    this.change({ typed: "" });
  }

  #named({ name, blob }: { name: string; blob: Blob }): Source {
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
    const judges = await this.#judges();
    if (judges === undefined || attempt !== this.#attempt) return;
    this.#worker().post({ kind: "audit", attempt, sources, ...judges });
  }

  /** The policies that judge now; undefined where the worker stopped first. */
  async #judges(): Promise<{ policy: string | null; serverPolicy: string | null } | undefined> {
    const serverPolicy = await this.#servedPolicy();
    if (serverPolicy === undefined) return undefined;
    return { policy: this.#policies.get().chosen?.text ?? null, serverPolicy };
  }

  /** What the service says of itself, for a page that has no policy of its own; undefined where the worker stopped first. */
  async #servedPolicy(): Promise<string | null | undefined> {
    if (this.#policies.get().builtIn === undefined) {
      await new Promise<void>((resolve) => this.#untilReady.push(resolve));
    }
    const { builtIn } = this.#policies.get();
    if (builtIn !== null) return builtIn === undefined ? undefined : null;
    this.#serverPolicy ??= this.#policy();
    const served = await this.#serverPolicy;
    // One that could not be had is asked for again next time.
    if (served === null) this.#serverPolicy = null;
    return served;
  }

  /** What the worker answers; null where it stopped, or was not started. */
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
      heard: (reply) => this.#heard(reply),
      lost: (problem) => this.#lost(problem),
      silent: SILENT,
      patience: PATIENCE,
    });
    return this.#link;
  }

  #heard(reply: Exclude<Reply, { kind: "pong" | "lost" }>): void {
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
  return new Worker(new URL("./worker.ts", import.meta.url), { type: "module", name: "clearseal-auditor" });
}

/** What a simulating service says of itself. Counts only where this build has no policy, and never for *verified*. */
async function developmentPolicy(): Promise<string | null> {
  try {
    const answer = await fetch(atService("/v1/development-policy"), { credentials: "omit" });
    return answer.ok ? await answer.text() : null;
  } catch {
    // Offline, or no service: then the build's policy or one that was added judges, or nothing does.
    return null;
  }
}
