import type { AttestationReport, Evidence, Problem, ReceiptReport, Row } from "@clearseal/verifier";
import type { Origin } from "../features/policy/origin";

/** What the worker's session rests on. The session itself, and every key, stays in the worker's wasm memory. */
export interface Trust {
  readonly report: AttestationReport;
  readonly evidence: Evidence | null;
  readonly validUntilMs: number;
}

export type Connected =
  /** `simulated` only in a page that has no policy built in. */
  | { readonly status: "trusted" | "simulated"; readonly trust: Trust }
  | { readonly status: "refused"; readonly report: AttestationReport; readonly evidence: Evidence | null }
  | { readonly status: "unreachable"; readonly problem: Problem };

/** One request that travels sealed. The body is transferred, not copied. */
export interface SealedRequest {
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
      /** Handle for the audit bundle, which stays in the worker until it is asked for. */
      readonly exchange: number;
      readonly response: InnerResponse;
      /** None where no inference took place. */
      readonly receipt: ReceiptReport | null;
      /** Who chose the policy of the session that it came through. */
      readonly origin: Origin | null;
    }
  | {
      readonly status: "refused";
      readonly problem: Problem;
      /** Present when the enclave was judged anew and refused: the seal is broken, not only this answer. */
      readonly report: AttestationReport | null;
    }
  | { readonly status: "unreachable"; readonly problem: Problem };

/** Some texts of a stream, one after the other, as soon as they are answered. Vectors are views of `response`, which is transferred. */
export type StreamedPart =
  | {
      readonly status: "embedded";
      /** Handle for the audit bundle. Its content is `response`, which the page has and the worker has not. */
      readonly exchange: number;
      /** Place of the first among all texts of the call, from 0. */
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

/** How a stream ended; every text that no part was about is unanswered. */
export type Streamed =
  | { readonly status: "done" }
  | { readonly status: "refused"; readonly problem: Problem; readonly report: AttestationReport | null }
  | { readonly status: "unreachable"; readonly problem: Problem };

/** What an audit bundle says of text and vectors: hashes, the salt that makes a text comparable with them, or all of it. */
export type Disclosure = "hashes" | "salt" | "content";

/** Every call that the page can make, with what goes in and what comes back. */
export interface Calls {
  /** `policy`: chosen by hand, JSON text; null for the one that is built in. */
  connect: { input: { url: string; policy: string | null }; output: Connected };
  exchange: { input: SealedRequest; output: Exchanged };
  /** Sends its answers as parts while it runs, and nothing to another model than `model`. */
  stream: { input: { texts: readonly string[]; model: string }; output: Streamed };
  /** `response`: of a streamed exchange, where the content is wanted. */
  bundle: {
    input: { exchange: number; disclose: Disclosure; response: Uint8Array | null };
    output: string;
  };
  forget: { input: null; output: null };
  flip: { input: { evidence: Evidence; policy: string | null; atMs: number }; output: Flipped };
}

/** A report on evidence in which one bit was changed on purpose. */
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
      /** Name of the policy that is built in. */
      readonly builtIn: string | null;
    }
  | { readonly kind: "done"; readonly id: number; readonly output: Calls[Call]["output"] }
  | { readonly kind: "part"; readonly id: number; readonly part: StreamedPart }
  | { readonly kind: "failed"; readonly id: number; readonly problem: Problem }
  | { readonly kind: "trust"; readonly trust: Trust }
  | { readonly kind: "lost"; readonly problem: Problem }
  | { readonly kind: "pong" };
