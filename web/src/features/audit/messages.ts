import type {
  AuditJudgement,
  AuditPolicy,
  AuditSummary,
  LogReport,
  Problem,
  VectorJudgement,
} from "@clearseal/verifier";

/** Something that was pasted, dropped, or came in a link. The worker reads it; the page never holds it as text. */
export interface Source {
  /** Unique in this tab. */
  readonly id: number;
  readonly name: string;
  readonly blob: Blob;
}

/** Page to worker. */
export type Request =
  /** Judges all of it, and forgets what was judged before. */
  | {
      readonly kind: "audit";
      readonly attempt: number;
      readonly sources: readonly Source[];
      /** Chosen by hand, JSON text. Nothing among the sources takes its place. */
      readonly policy: string | null;
      /** What the service says of itself; never leads to more than *simulated*. */
      readonly serverPolicy: string | null;
    }
  /** `attempt` is the one that the index belongs to. */
  | { readonly kind: "detail"; readonly id: number; readonly attempt: number; readonly index: number }
  | { readonly kind: "open"; readonly id: number; readonly question: Question }
  /** Is the receipt in the log? `inclusion` is the host's proof as it came. */
  | {
      readonly kind: "log";
      readonly id: number;
      readonly index: number;
      readonly inclusion: string;
      readonly earlier: Earlier | null;
    }
  /** Was a vector computed from its text? Policies as for an audit. */
  | {
      readonly kind: "vector";
      readonly id: number;
      readonly row: string;
      readonly proof: string;
      readonly policy: string | null;
      readonly serverPolicy: string | null;
    }
  | { readonly kind: "ping" };

/** The head that an earlier proof carries, and how the later tree grew out of that one. */
export interface Earlier {
  readonly inclusion: string;
  /** The host's answer as it came (`clearseal-log-consistency/1`); null where the later tree is no larger. */
  readonly consistency: string | null;
}

/** Is a receipt about this text? */
export interface Question {
  readonly index: number;
  /** Hex. */
  readonly salt: string;
  /** Bodies that the request may have had; the first that fits is named. */
  readonly requests: readonly Uint8Array[];
  readonly response: Uint8Array;
}

export interface Answer {
  /** Which of the bodies the receipt commits to, and when the request was made, Unix milliseconds. */
  readonly request: { readonly which: number; readonly madeAtMs: number } | null;
  /** Whether it commits to the response. */
  readonly response: boolean;
}

/** What was found before anything was judged. */
export interface Found {
  readonly total: number;
  /** The last policy that was among it, which is evidence, and whether it judges. */
  readonly policy: AuditPolicy | null;
  /** Hex of a receipt key that was among it. */
  readonly key: string | null;
  /** How the first item was written, for one item alone. */
  readonly encoding: string | null;
}

/** Worker to page. */
export type Reply =
  /** The verifier is up, and has this policy built in. */
  | { readonly kind: "ready"; readonly builtIn: string | null }
  | { readonly kind: "found"; readonly attempt: number; readonly found: Found }
  | { readonly kind: "summaries"; readonly attempt: number; readonly summaries: readonly AuditSummary[] }
  | { readonly kind: "judged"; readonly attempt: number; readonly tookMs: number }
  | { readonly kind: "unreadable"; readonly attempt: number; readonly problem: Problem }
  | { readonly kind: "detail"; readonly id: number; readonly judgement: AuditJudgement | null }
  | { readonly kind: "opened"; readonly id: number; readonly answer: Answer }
  | { readonly kind: "logged"; readonly id: number; readonly report: LogReport | null }
  | { readonly kind: "proven"; readonly id: number; readonly judgement: VectorJudgement }
  | { readonly kind: "lost"; readonly problem: Problem }
  | { readonly kind: "pong" };
