import type { AttestationReport, ReceiptReport } from "../pkg/clearseal_verifier.js";
import type {
  PlatformFetch,
  PlatformRequest,
  PlatformRequestInit,
  PlatformResponse,
  PlatformSignal,
  PlatformURL,
  PlatformWebSocket,
} from "./platform.js";

/** Why there is no answer. Says nothing about whether the enclave is trustworthy. */
export interface Problem {
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly remedy: string;
}

/** Evidence of a check, so that it can be repeated elsewhere. Bytes are exactly those received. */
export interface Evidence {
  /** `application/cbor`, a map: 1 document, 2 manifest. */
  readonly bytes: Uint8Array;
  /** The nonce that was sent, hex. */
  readonly nonce: string;
  /** The trust policy that was applied, JSON; `null` if there was none. If the evidence is appraised again under this policy
   * alone, the verdict is *simulated* at best. The report says who chose the policy. */
  readonly policy: string | null;
  /** Certificate revocation lists that the host served, in DER, concatenated; empty if it served none. */
  readonly crls: Uint8Array;
}

/** A trust policy as JSON text, or as the parsed object. */
export type PolicyInput = string | { readonly format: string; readonly [member: string]: unknown };

/** Returns the current trust policy, from a file, a database or a signed message. The caller is responsible for its source:
 * never ask the service that is being verified. */
export type PolicySource = () => PolicyInput | Promise<PolicyInput>;

export interface ConnectOptions {
  /** Trust policy, chosen by the caller: JSON text, or the parsed object. Defaults to the policy of this build. Without either,
   * every enclave is refused (`NO_POLICY`). A function is called before the check, and again before a request if its last
   * answer is older than {@link ConnectOptions.policyEveryMs}; a new policy takes effect as with {@link Session.setPolicy}. If the
   * function fails or returns no usable policy, the last one stays in force and {@link Session.policyProblem} says why. */
  readonly policy?: PolicyInput | PolicySource;
  /** How long a policy from a function is used before the function is called again, in milliseconds; 60,000 by default. */
  readonly policyEveryMs?: number;
  /** Also accept a simulated enclave, for development: the connection then has the status `simulated`. The operator of a
   * simulated enclave can read everything that is sent to it. Only with this option, and without a policy, is the service asked
   * for its own development policy. */
  readonly allowSimulated?: boolean;
  /** Replaces the global `fetch`. */
  readonly fetch?: PlatformFetch;
  /** Ends the check; the result is then `unreachable` with code `ABORTED`. */
  readonly signal?: PlatformSignal;
  /** Replaces the clock: Unix milliseconds. */
  readonly now?: () => number;
  /** `false`: verify every signature in the wasm module instead of with WebCrypto. The report is the same. */
  readonly accelerate?: boolean;
  /** Timeout for one answer, in milliseconds. */
  readonly timeoutMs?: number;
  /** Replaces the global `WebSocket`, which {@link Session.stream} uses. */
  readonly webSocket?: new (
    url: string,
  ) => PlatformWebSocket;
}

export type Connection =
  | {
      /** Every check passed. */
      readonly status: "trusted";
      readonly report: AttestationReport;
      readonly evidence: Evidence;
      readonly session: Session;
    }
  | {
      /** A simulated enclave, which proves nothing. Only with `allowSimulated: true`. */
      readonly status: "simulated";
      readonly report: AttestationReport;
      readonly evidence: Evidence;
      readonly session: Session;
    }
  | { readonly status: "refused"; readonly report: AttestationReport; readonly evidence: Evidence | null }
  | { readonly status: "unreachable"; readonly problem: Problem };

export interface SealedMessage {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
}

/** A verified enclave. Its keys stay in wasm memory. */
export interface Session {
  /** The latest report; the same object until the enclave is verified again. */
  readonly report: AttestationReport;
  /** The evidence of that report. */
  readonly evidence: Evidence;
  /** Time until which requests may be sealed under it, Unix milliseconds. */
  readonly validUntilMs: number;
  /** Why the latest policy could not be read from its source; `null` if it could. */
  readonly policyProblem: Problem | null;
  /**
   * Replaces the trust policy. Nothing more is sent under the previous proof: requests in flight are aborted, connections of
   * streams are closed, and the enclave is verified again before anything else is sent. If it is accepted, unanswered requests
   * are sent again. If it is refused, requests and streams end with the code `POLICY_WITHDRAWN`, and the session is closed.
   * Setting the same policy again changes nothing.
   *
   * Throws {@link PolicyUnusable} if this is not a valid policy; the previous one stays in force.
   */
  setPolicy(policy: PolicyInput): void;
  /** Replacement for `fetch`, bound to the session: `new OpenAI({ fetch: session.fetch })`. The request is encrypted to the
   * enclave; the promise resolves to the decrypted response. Rejects with a {@link SealedFetchError} if
   * {@link Session.exchange} would not be `answered`, and like `fetch` if aborted. */
  readonly fetch: (
    input: string | PlatformURL | PlatformRequest,
    init?: PlatformRequestInit,
  ) => Promise<PlatformResponse>;
  /** Sends one sealed request and returns the response with its receipt. Never rejects: a refusal is a result. */
  exchange(message: SealedMessage, options?: { readonly signal?: PlatformSignal }): Promise<ExchangeResult>;
  /**
   * Embeds any number of texts over one attested channel (a WebSocket), and yields each batch with its vectors and its
   * receipt, once and in the order of the texts. If the connection ends, the stream reconnects after a random pause and sends
   * unanswered texts again. A slow reader slows the sending down; leaving the loop ends the stream.
   *
   * Throws a {@link StreamError}: with the code `ABORTED` if cancelled, a transient one if too many connections in a row gave
   * no answer, and at once if evidence is refused or bytes were forged.
   */
  stream(
    texts: Iterable<string> | AsyncIterable<string>,
    options?: StreamOptions,
  ): AsyncGenerator<StreamedBatch, void, undefined>;
  /** The models of the verified enclave, as its manifest describes them: first the one that the trust policy demands. */
  readonly models: readonly ServedModel[];
  /**
   * A session with another model of the same service, by any form of its name; this one if it is already the model. Verifies the
   * enclave again, under the trust policy with that model's hash in place of the demanded one; the policy itself must accept the
   * enclave too. The hash is the one in {@link Session.models}: the image decides it, not the policy. Shares policy changes with
   * this session, and is closed with it; later calls return the same session.
   *
   * Rejects with a {@link SealedFetchError}: `MODEL_NOT_SERVED` if no model has the name, or the reason for a refusal.
   */
  withModel(name: string, options?: { readonly signal?: PlatformSignal }): Promise<Session>;
  /**
   * Scores `documents` for `query` with a cross-encoder, in one sealed request; at most 2,048. Verifies the receipt, and recomputes
   * from query, documents and scores the tree that it commits to, so that each result has a proof.
   *
   * Rejects with a {@link SealedFetchError}: as {@link Session.fetch}, or with the enclave's code if it refuses the request, such as
   * `MODEL_TASK` for a model that embeds.
   */
  rerank(query: string, documents: readonly string[], options?: RerankOptions): Promise<Ranking>;
  /** Deletes the enclave's keys. */
  close(): void;
}

/** A model that a service holds. */
export interface ServedModel {
  /** Name, which requests may use. */
  readonly id: string;
  readonly version: string;
  /** SHA-256 of its files, hex: `model.sha256` of a trust policy that demands it. */
  readonly sha256: string;
  /** Components of a vector; 1 of a model that scores pairs. */
  readonly dimension: number;
  /** Most tokens of a text that it reads. */
  readonly maxTokens: number;
  /** Whether vectors have unit length. */
  readonly normalised: boolean;
}

export interface RerankOptions {
  /** Name of the model, as {@link Session.withModel} takes it. By default the one that the trust policy demands. */
  readonly model?: string;
  /** Number of results, the best ones; all by default. */
  readonly topN?: number;
  /** `false`: refuse a pair that is longer than the model reads (`INPUT_TOO_LONG`) instead of cutting it. */
  readonly truncate?: boolean;
  readonly signal?: PlatformSignal;
}

/** Documents with their scores, the best first, and the receipt that commits to them. */
export interface Ranking {
  /** The query as it was scored: a lone surrogate is U+FFFD. */
  readonly query: string;
  readonly results: readonly RankedDocument[];
  /** Name of the model, from the receipt. */
  readonly model: string;
  /** Verified. */
  readonly receipt: ReceiptReport;
  /** The line of evidence that the proofs of all results share. */
  readonly evidence: string;
  /** As of {@link ExchangeResult}. */
  readonly bundle: string;
  readonly bundleWithContent: () => string;
  readonly bundleWithSalt: () => string;
}

export interface RankedDocument {
  /** Place among the documents, from 0. */
  readonly index: number;
  readonly document: string;
  /** The higher, the better; a float32. */
  readonly score: number;
  /** Tokens of query and document that the model read. */
  readonly tokens: number;
  /** Whether there were more, which the model did not read. */
  readonly truncated: boolean;
  /** Proves the score together with {@link Ranking.evidence}: `clearseal verify vector`. Its holder can test guesses of the
   * pair, but not read it. */
  readonly proof: string;
}

export type ExchangeResult =
  | {
      readonly status: "answered";
      readonly response: {
        readonly status: number;
        readonly headers: [string, string][];
        readonly body: Uint8Array;
      };
      /** Verified. `null` for a `GET` and for an error response, for which no inference took place. */
      readonly receipt: ReceiptReport | null;
      /** Audit bundle as JSON, without request and response; empty if there is no receipt. */
      readonly bundle: string;
      /** The bundle with request and response: anyone who reads it can open the commitments. */
      readonly bundleWithContent: () => string;
      /** The bundle with only the client's salt: anyone who has it can test guesses of the text, but not read it. */
      readonly bundleWithSalt: () => string;
    }
  | {
      readonly status: "refused";
      readonly code: string;
      readonly message: string;
      readonly remedy: string;
      /** The refused receipt, if that is the reason. */
      readonly receipt: ReceiptReport | null;
      /** The report, if the enclave was verified again and refused: then nothing was sent, and the session is closed. */
      readonly report: AttestationReport | null;
    }
  /** Internal: the state between the two attempts of an exchange, which verifies the enclave again in between. */
  | { readonly status: "key-unknown" }
  | { readonly status: "unreachable"; readonly problem: Problem };

export interface StreamOptions {
  /** Ends the stream; batches that were already yielded stay valid. */
  readonly signal?: PlatformSignal;
  /** Called after each answer. */
  readonly onProgress?: (progress: StreamProgress) => void;
  /** Maximum number of texts in one request, and so under one receipt; at most 256, which is the default. */
  readonly batchItems?: number;
  /** Maximum number of requests in flight; 4 by default. */
  readonly window?: number;
  /** How many connections in a row may end without an answer; 10 by default. */
  readonly attempts?: number;
  /** Idle timeout of a connection in milliseconds; 30,000 by default. */
  readonly patienceMs?: number;
}

export interface StreamProgress {
  /** Texts that were answered. */
  readonly items: number;
  /** Requests that were answered. */
  readonly batches: number;
  /** Connections that were opened so far. */
  readonly connections: number;
}

/** Consecutive texts of a stream, and their result. */
export type StreamedBatch =
  | {
      readonly status: "embedded";
      /** Index of the first text in the stream, from 0. */
      readonly first: number;
      readonly count: number;
      /** Dimension of a vector. */
      readonly dimension: number;
      /** `count` vectors, concatenated. */
      readonly values: Float32Array<ArrayBuffer>;
      /** Number of tokens that the model read of each text. */
      readonly tokens: Uint32Array<ArrayBuffer>;
      /** 1 if a text was longer than the model's limit: the vector does not cover the rest. */
      readonly truncated: Uint8Array<ArrayBuffer>;
      /** Verified. */
      readonly receipt: ReceiptReport;
      /** Audit bundle as JSON, without request and response. */
      readonly bundle: string;
      /** Arguments for `bundleWithContent`: the request, which holds the salt of the commitments, and the whole response, of
       * which the tensors above are views. */
      readonly request: Uint8Array;
      readonly response: Uint8Array<ArrayBuffer>;
    }
  | {
      /**
       * The enclave rejected the texts, or failed; a retry is likely to give the same result. The stream continues. A text that the
       * enclave refuses is reported separately, and its neighbours get their vectors; `count` exceeds 1 only if no single text is
       * the cause.
       */
      readonly status: "rejected";
      readonly first: number;
      readonly count: number;
      /** Inner status code; 413 for a text that is too long for a channel and was not sent. */
      readonly httpStatus: number;
      /** The enclave's error code: `INPUT_EMPTY`, `TEXT_TOO_LONG`, … */
      readonly code: string;
      readonly detail: string;
    };

/** Why a stream ended early. */
export class StreamError extends Error {
  override readonly name = "StreamError";
  readonly code: string;
  readonly remedy: string;
  /** A network failure may be the cause: a retry may work. Never true for refused evidence or forged bytes. */
  readonly transient: boolean;
  /** The enclave has different keys from those that were verified. */
  readonly stale: boolean;
  /** The report, if the enclave was verified again and refused. The session is then closed. */
  readonly report: AttestationReport | null;

  constructor(
    code: string,
    message: string,
    remedy: string,
    more: {
      readonly transient?: boolean;
      readonly stale?: boolean;
      readonly report?: AttestationReport | null;
    } = {},
  ) {
    super(message);
    this.code = code;
    this.remedy = remedy;
    this.transient = more.transient ?? false;
    this.stale = more.stale ?? false;
    this.report = more.report ?? null;
  }
}

/** The trust policy is not valid. */
export class PolicyUnusable extends TypeError {
  override readonly name = "PolicyUnusable";
  readonly code: string;
  readonly remedy: string;

  constructor(code: string, message: string, remedy: string) {
    super(message);
    this.code = code;
    this.remedy = remedy;
  }
}

/** The package's WebAssembly file was not loaded. `cause` is the error of the load. */
export class ModuleUnavailable extends Error {
  override readonly name = "ModuleUnavailable";
  readonly code = "MODULE_UNAVAILABLE";
  readonly remedy =
    "Copy pkg/clearseal_verifier_bg.wasm of the package to the place that the message names, or pass the file to initialise() first.";

  constructor(cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(`The WebAssembly file of @clearseal/verifier could not be loaded: ${why}`, { cause });
  }
}

/** A sealed `fetch` has no response. */
export class SealedFetchError extends TypeError {
  override readonly name = "SealedFetchError";
  readonly code: string;
  readonly remedy: string;

  constructor(code: string, message: string, remedy: string) {
    super(message);
    this.code = code;
    this.remedy = remedy;
  }
}
