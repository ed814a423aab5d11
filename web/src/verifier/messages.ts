import type {
  AttestationReport,
  Evidence,
  Problem,
  RankedDocument,
  ReceiptReport,
  Row,
  ServedModel,
} from "@clearseal/verifier";
import type { Origin } from "../features/policy/origin";

/** Basis of the worker's session. The session and all keys stay in the worker's wasm memory. */
export interface Trust {
  readonly report: AttestationReport;
  readonly evidence: Evidence | null;
  readonly validUntilMs: number;
  /** Models of the verified manifest, the one of the policy first. */
  readonly models?: readonly ServedModel[];
}

export type Connected =
  /** `simulated` only in a page without a built-in policy. */
  | { readonly status: "trusted" | "simulated"; readonly trust: Trust }
  | { readonly status: "refused"; readonly report: AttestationReport; readonly evidence: Evidence | null }
  | { readonly status: "unreachable"; readonly problem: Problem };

/** One request to seal. The body is transferred, not copied. */
export interface SealedRequest {
  /** The model that has to answer; by default the one of the policy. */
  readonly model?: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: Uint8Array<ArrayBuffer>;
}

export interface InnerResponse {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Uint8Array;
}

export type Exchanged =
  | {
      readonly status: "answered";
      /** Handle for the audit bundle, which stays in the worker until requested. */
      readonly exchange: number;
      readonly response: InnerResponse;
      /** Null if there was no inference. */
      readonly receipt: ReceiptReport | null;
      /** Origin of the session's policy. */
      readonly origin: Origin | null;
    }
  | {
      readonly status: "refused";
      readonly problem: Problem;
      /** Present if a re-verification refused the enclave: the seal is broken, not only this answer. */
      readonly report: AttestationReport | null;
    }
  | { readonly status: "unreachable"; readonly problem: Problem };

/** Answer for consecutive texts of a stream. Vectors are views of `response`, which is transferred. */
export type StreamedPart =
  | {
      readonly status: "embedded";
      /** Handle for the audit bundle. Its content is `response`, which only the page has. */
      readonly exchange: number;
      /** Index of the first text among all texts of the call, from 0. */
      readonly first: number;
      readonly count: number;
      readonly dimension: number;
      readonly values: Float32Array<ArrayBuffer>;
      readonly tokens: Uint32Array<ArrayBuffer>;
      readonly truncated: Uint8Array<ArrayBuffer>;
      readonly response: Uint8Array<ArrayBuffer>;
      readonly receipt: ReceiptReport;
      readonly origin: Origin | null;
    }
  | {
      readonly status: "rejected";
      readonly first: number;
      readonly count: number;
      readonly httpStatus: number;
      readonly problem: Problem;
    };

/** End of a stream; texts without a part are unanswered. */
export type Streamed =
  | { readonly status: "done" }
  | { readonly status: "refused"; readonly problem: Problem; readonly report: AttestationReport | null }
  | { readonly status: "unreachable"; readonly problem: Problem };

/** Documents to score for a query. */
export interface RerankRequest {
  readonly model: string;
  readonly query: string;
  readonly documents: readonly string[];
}

export type Reranked =
  | {
      readonly status: "ranked";
      /** Every document, the best first. Each score is proved by the receipt. */
      readonly results: readonly RankedDocument[];
      /** Handle for the audit bundle. */
      readonly exchange: number;
      readonly receipt: ReceiptReport;
      readonly origin: Origin | null;
    }
  | { readonly status: "refused"; readonly problem: Problem; readonly report: AttestationReport | null }
  | { readonly status: "unreachable"; readonly problem: Problem };

/** Content of an audit bundle: hashes, additionally the salt that allows comparison with a text, or also text and vectors. */
export type Disclosure = "hashes" | "salt" | "content";

/** All calls from the page, with input and output. */
export interface Calls {
  /** `policy`: JSON text of a chosen policy; null for the built-in one. */
  connect: { input: { url: string; policy: string | null }; output: Connected };
  exchange: { input: SealedRequest; output: Exchanged };
  /** Sends answers as parts. Sends texts only to `model`. */
  stream: { input: { texts: readonly string[]; model: string }; output: Streamed };
  rerank: { input: RerankRequest; output: Reranked };
  /** `response`: that of a streamed exchange, if the content is disclosed. */
  bundle: {
    input: { exchange: number; disclose: Disclosure; response: Uint8Array | null };
    output: string;
  };
  forget: { input: null; output: null };
  flip: { input: { evidence: Evidence; policy: string | null; atMs: number }; output: Flipped };
}

/** A report on evidence in which one bit was changed deliberately. */
export interface Flipped {
  readonly report: AttestationReport;
  /** Position of the changed byte. */
  readonly offset: number;
}

export type Call = keyof Calls;

/** Page to worker. */
export type Request =
  | {
      [K in Call]: {
        readonly kind: "call";
        readonly id: number;
        readonly call: K;
        readonly input: Calls[K]["input"];
      };
    }[Call]
  | { readonly kind: "abort"; readonly id: number }
  | { readonly kind: "ping" };

/** Worker to page. */
export type Reply =
  | {
      readonly kind: "ready";
      readonly questions: readonly Row[];
      /** Name of the built-in policy. */
      readonly builtIn: string | null;
    }
  | { readonly kind: "done"; readonly id: number; readonly output: Calls[Call]["output"] }
  | { readonly kind: "part"; readonly id: number; readonly part: StreamedPart }
  | { readonly kind: "failed"; readonly id: number; readonly problem: Problem }
  | { readonly kind: "trust"; readonly trust: Trust }
  | { readonly kind: "lost"; readonly problem: Problem }
  | { readonly kind: "pong" };
