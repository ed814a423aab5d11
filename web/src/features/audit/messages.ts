import type {
  AuditAppraisal,
  AuditPolicy,
  AuditSummary,
  LogReport,
  Problem,
  VectorAppraisal,
} from "@clearseal/verifier";

/** Pasted, dropped or linked content. Only the worker reads it as text. */
export interface Source {
  /** Unique in this tab. */
  readonly id: number;
  readonly name: string;
  readonly blob: Blob;
}

/** Page to worker. */
export type Request =
  /** Checks all sources, and forgets earlier ones. */
  | {
      readonly kind: "audit";
      readonly attempt: number;
      readonly sources: readonly Source[];
      /** JSON text of the chosen policy. No source replaces it. */
      readonly policy: string | null;
      /** The service's own policy; its best verdict is *simulated*. */
      readonly serverPolicy: string | null;
    }
  /** `attempt` is the attempt of the index. */
  | { readonly kind: "detail"; readonly id: number; readonly attempt: number; readonly index: number }
  | { readonly kind: "open"; readonly id: number; readonly question: Question }
  /** Is the receipt in the log? `inclusion` is the host's unmodified proof. */
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

/** An earlier proof with its head, and the proof that the later tree extends it. */
export interface Earlier {
  readonly inclusion: string;
  /** The host's unmodified answer (`clearseal-log-consistency/1`); null if the later tree is not larger. */
  readonly consistency: string | null;
}

/** Does a receipt cover this text? */
export interface Question {
  readonly index: number;
  /** Hex. */
  readonly salt: string;
  /** Candidates for the request's body; the answer names the first match. */
  readonly requests: readonly Uint8Array[];
  readonly response: Uint8Array;
}

export interface Answer {
  /** Index of the body that the receipt commits to, and the time of the request in Unix milliseconds. */
  readonly request: { readonly which: number; readonly madeAtMs: number } | null;
  /** Whether the receipt commits to the response. */
  readonly response: boolean;
}

/** Content of the sources, before any check. */
export interface Found {
  readonly total: number;
  /** The last policy among the sources, which is evidence, and whether it applies. */
  readonly policy: AuditPolicy | null;
  /** A receipt key among the sources, in hex. */
  readonly key: string | null;
  /** Encoding of the only item; null for several. */
  readonly encoding: string | null;
}

/** Worker to page. */
export type Reply =
  /** The verifier has started; `builtIn` names its built-in policy. */
  | { readonly kind: "ready"; readonly builtIn: string | null }
  | { readonly kind: "found"; readonly attempt: number; readonly found: Found }
  | { readonly kind: "summaries"; readonly attempt: number; readonly summaries: readonly AuditSummary[] }
  | { readonly kind: "judged"; readonly attempt: number; readonly tookMs: number }
  | { readonly kind: "unreadable"; readonly attempt: number; readonly problem: Problem }
  | { readonly kind: "detail"; readonly id: number; readonly appraisal: AuditAppraisal | null }
  | { readonly kind: "opened"; readonly id: number; readonly answer: Answer }
  | { readonly kind: "logged"; readonly id: number; readonly report: LogReport | null }
  | { readonly kind: "proven"; readonly id: number; readonly appraisal: VectorAppraisal }
  | { readonly kind: "lost"; readonly problem: Problem }
  | { readonly kind: "pong" };
