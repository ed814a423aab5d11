import type { AuditJudgement, LogReport, Problem, VectorJudgement } from "@clearseal/verifier";
import { atService } from "../../app/service";
import { onChoice, type PolicyStore, policies as policiesOfTab } from "../policy/policy-store";
import { type Audit, type AuditEvent, NOTHING, transition } from "./audit";
import type { Answer, Earlier, Question, Reply, Request, Source } from "./messages";

/** The part of a `Worker` that the store uses, so that tests can stand in for it. */
export interface Port {
  postMessage(message: Request): void;
  terminate(): void;
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  onmessageerror: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
}

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
export class AuditStore {
  #view: AuditView = { typed: "", sources: [], audit: NOTHING };
  #port: Port | null = null;
  #unanswered = 0;
  #attempt = 0;
  #question = 0;
  #sourceId = 0;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #serverPolicy: Promise<string | null> | null = null;
  /** Callers that wait until the worker has said which policy it has built in, or has stopped. */
  readonly #untilReady: (() => void)[] = [];
  readonly #waiting = new Map<number, (reply: Reply | null) => void>();
  readonly #subscribers = new Set<() => void>();
  readonly #spawn: () => Port;
  readonly #policy: () => Promise<string | null>;
  readonly #policies: PolicyStore;

  constructor(
    spawn: () => Port = spawnAuditor,
    policy: () => Promise<string | null> = developmentPolicy,
    policies: PolicyStore = policiesOfTab,
  ) {
    this.#spawn = spawn;
    this.#policy = policy;
    this.#policies = policies;
    // What was found under one policy says nothing under another.
    onChoice(policies, this.again);
  }

  readonly get = (): AuditView => this.#view;

  readonly subscribe = (subscriber: () => void): (() => void) => {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  };

  /** Loads what an audit needs, so that it works when the network is gone afterwards. */
  readonly prepare = (): void => {
    this.#worker();
    void this.#servedPolicy();
  };

  /** Adds sources to what is audited, and judges all of it. */
  readonly add = (sources: readonly { name: string; blob: Blob }[]): void => {
    this.#replace([...this.#view.sources, ...sources.map((source) => this.#named(source))]);
  };

  /** Takes over what is in the text box, and judges once its writer pauses. */
  readonly type = (typed: string): void => {
    this.#update({ ...this.#view, typed });
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => {
      const others = this.#view.sources.filter((source) => source.name !== "");
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
    this.#replace(this.#view.sources.filter((source) => source.id !== id));
  };

  readonly clear = (): void => {
    this.#forgetTyped();
    this.#replace([]);
  };

  /** Judges the same again, with a fresh worker where the last one is gone. */
  readonly again = (): void => this.#replace(this.#view.sources);

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

  readonly pulse = (): void => {
    if (!this.#port) return;
    if (this.#unanswered >= PATIENCE) {
      this.#lose(SILENT);
      return;
    }
    this.#unanswered += 1;
    this.#port.postMessage({ kind: "ping" });
  };

  #forgetTyped(): void {
    clearTimeout(this.#typing);
    this.#update({ ...this.#view, typed: "" });
  }

  #named({ name, blob }: { name: string; blob: Blob }): Source {
    this.#sourceId += 1;
    return { id: this.#sourceId, name, blob };
  }

  #replace(sources: readonly Source[]): void {
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.#update({ ...this.#view, sources });
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
    this.#worker().postMessage({ kind: "audit", attempt, sources, ...judges });
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

  async #ask(request: (id: number) => Request): Promise<Reply | null> {
    const port = this.#port;
    if (!port) return null;
    this.#question += 1;
    const id = this.#question;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      port.postMessage(request(id));
    });
  }

  #worker(): Port {
    if (this.#port) return this.#port;
    const port = this.#spawn();
    port.onmessage = ({ data }) => this.#receive(data);
    port.onmessageerror = () => this.#lose(SILENT);
    port.onerror = (event) => {
      this.#lose({
        ...SILENT,
        code: "VERIFIER_FAILED",
        detail: event.message || "The background worker could not start.",
      });
    };
    this.#unanswered = 0;
    this.#port = port;
    return port;
  }

  #receive(reply: Reply): void {
    this.#unanswered = 0;
    switch (reply.kind) {
      case "pong":
        break;
      case "ready":
        this.#policies.builtIn(reply.builtIn);
        this.#release();
        break;
      case "lost":
        this.#lose(reply.problem);
        break;
      case "detail":
      case "opened":
      case "logged":
      case "proven":
        this.#waiting.get(reply.id)?.(reply);
        this.#waiting.delete(reply.id);
        break;
      default:
        this.#dispatch({ type: "replied", reply });
    }
  }

  #lose(problem: Problem): void {
    const port = this.#port;
    if (!port) return;
    port.onmessage = null;
    port.terminate();
    this.#port = null;
    for (const resolve of this.#waiting.values()) resolve(null);
    this.#waiting.clear();
    this.#dispatch({ type: "lost", problem });
    this.#release();
  }

  #release(): void {
    for (const resolve of this.#untilReady.splice(0)) resolve();
  }

  #dispatch(event: AuditEvent): void {
    const audit = transition(this.#view.audit, event);
    if (audit !== this.#view.audit) this.#update({ ...this.#view, audit });
  }

  #update(view: AuditView): void {
    this.#view = view;
    for (const subscriber of this.#subscribers) subscriber();
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
