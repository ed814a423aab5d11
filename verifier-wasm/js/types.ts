import type { AttestationReport, ReceiptReport } from "../pkg/clearseal_verifier.js";

/** Why nobody could be asked. Says nothing about whether the enclave is trustworthy. */
export interface Problem {
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly remedy: string;
}

/** What was judged, so that a reader can judge it again elsewhere. Bytes are what came over the wire, unaltered. */
export interface Evidence {
  /** `application/cbor`, a map: 1 document, 2 manifest. */
  readonly bytes: Uint8Array;
  /** The nonce that was sent, hex. */
  readonly nonce: string;
  /** The trust policy that was applied, JSON; `null` where there was none. Evidence that is judged again brings its policy
   * along as evidence: it then leads to *simulated* at best. Who chose it stands in the report. */
  readonly policy: string | null;
  /** Certificate revocation lists that the host served, in DER, one after another; no bytes where it served none. */
  readonly crls: Uint8Array;
}

/** A trust policy as JSON text, or as the object that such text parses to. */
export type PolicyInput = string | { readonly format: string; readonly [member: string]: unknown };

/** Gives the trust policy that counts now: from a file, a database, a signed message. Its caller vouches for where it comes from:
 * never ask the service that is judged. */
export type PolicySource = () => PolicyInput | Promise<PolicyInput>;

export interface ConnectOptions {
  /** Trust policy, chosen by the caller: its JSON text, or that text parsed. Absent: the policy of this build. With neither,
   * every enclave is refused (`NO_POLICY`). A function is asked before the check, and again before a request where its last
   * answer is older than {@link ConnectOptions.policyEveryMs}; another answer counts as {@link Session.setPolicy} says. Where it
   * fails or gives no usable policy, the last one stays in force and {@link Session.policyProblem} says why. */
  readonly policy?: PolicyInput | PolicySource;
  /** How long an answer of the policy's source counts, in milliseconds; 60,000 by default. */
  readonly policyEveryMs?: number;
  /** Also accept a simulated enclave, for development: the connection then has the status `simulated`. Whoever runs a
   * simulated enclave reads what is sent to it. Only with this, and without a policy, is the service asked for its own
   * development policy. */
  readonly allowSimulated?: boolean;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** Ends the check; the result is then `unreachable` with code `ABORTED`. */
  readonly signal?: AbortSignal;
  /** Replaces the clock: Unix milliseconds. */
  readonly now?: () => number;
  /** `false`: compute every signature in the wasm module instead of handing them to WebCrypto. The report is the same. */
  readonly accelerate?: boolean;
  /** Longest wait for one answer, in milliseconds. */
  readonly timeoutMs?: number;
  /** Replaces the global `WebSocket`, which {@link Session.stream} needs. */
  readonly webSocket?: new (
    url: string,
  ) => WebSocket;
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
      /** A development enclave, which proves nothing. Only ever with `allowSimulated: true`. */
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
  /** The latest report; the same object until the session attests anew. */
  readonly report: AttestationReport;
  /** What that report judged. */
  readonly evidence: Evidence;
  /** The last moment at which requests may be sealed under it, Unix milliseconds. */
  readonly validUntilMs: number;
  /** Why the next policy could not be taken from its source; `null` where it could. */
  readonly policyProblem: Problem | null;
  /**
   * Judges by another trust policy from now on. Nothing more is sent under the proof of before: a request under way is cut and a
   * stream's connection closed, the enclave is checked again before anything else is sent, and what was not answered is sent again
   * where it is accepted. Where it is refused, requests and streams end with the code `POLICY_WITHDRAWN`, and the session is
   * closed. The same policy again changes nothing.
   *
   * Throws {@link PolicyUnusable} where this is not a policy; the one before it stays in force.
   */
  setPolicy(policy: PolicyInput): void;
  /** Drop-in for `fetch`, which may be passed along by itself, as in `new OpenAI({ fetch: session.fetch })`. The request travels sealed, the promise resolves to the inner response. Rejects with a
   * {@link SealedFetchError} where {@link Session.exchange} would not have answered, and like `fetch` when aborted. */
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  /** One sealed request with its receipt. Resolves whatever happens: a refusal is an outcome. */
  exchange(message: SealedMessage, options?: { readonly signal?: AbortSignal }): Promise<ExchangeResult>;
  /**
   * Embeds any number of texts over one attested channel (a WebSocket), and hands out each batch with its vectors and its
   * receipt, once and in the order of the texts. A connection that ends is made again after a random pause, and what was not
   * answered is sent again. Taking batches slowly slows the sending down; leaving the loop ends the stream.
   *
   * Throws a {@link StreamError}: with code `ABORTED` where it was cancelled, with a transient one where no connection brings
   * an answer any more, and at once where evidence is refused or bytes were forged.
   */
  stream(
    texts: Iterable<string> | AsyncIterable<string>,
    options?: StreamOptions,
  ): AsyncGenerator<StreamedBatch, void, undefined>;
  /** Lets go of the enclave's keys. */
  close(): void;
}

export type ExchangeResult =
  | {
      readonly status: "answered";
      readonly response: {
        readonly status: number;
        readonly headers: [string, string][];
        readonly body: Uint8Array;
      };
      /** Never refused. A success has one, but for that of a `GET`; a refusal has none, since no inference took place. */
      readonly receipt: ReceiptReport | null;
      /** Audit bundle as JSON, without request and response; empty where there is no receipt. */
      readonly bundle: string;
      /** The same with both: whoever reads it can open the commitments. */
      readonly bundleWithContent: () => string;
      /** The same with the client's salt alone: whoever has it can test guesses of the text, and read nothing. */
      readonly bundleWithSalt: () => string;
    }
  | {
      readonly status: "refused";
      readonly code: string;
      readonly message: string;
      readonly remedy: string;
      /** Where the receipt was what was refused. */
      readonly receipt: ReceiptReport | null;
      /** Where the enclave was judged anew and refused: then nothing was sent, and the session is closed. */
      readonly report: AttestationReport | null;
    }
  /** Only ever seen between the two attempts of an exchange, which attests anew by itself. */
  | { readonly status: "key-unknown" }
  | { readonly status: "unreachable"; readonly problem: Problem };

export interface StreamOptions {
  /** Ends the stream; batches that were handed out stay good. */
  readonly signal?: AbortSignal;
  /** Called after each answer. */
  readonly onProgress?: (progress: StreamProgress) => void;
  /** Most texts in one request, and so under one receipt; 256 at most, which is the default. */
  readonly batchItems?: number;
  /** Most requests under way; 4 by default. */
  readonly window?: number;
  /** Connections in a row that may end without an answer; 10 by default. */
  readonly attempts?: number;
  /** Longest silence of a connection in milliseconds; 30,000 by default. */
  readonly patienceMs?: number;
}

export interface StreamProgress {
  /** Texts that were answered. */
  readonly items: number;
  /** Requests that were answered. */
  readonly batches: number;
  /** Connections that were begun so far. */
  readonly connections: number;
}

/** Some texts of a stream, one after the other, and what came of them. */
export type StreamedBatch =
  | {
      readonly status: "embedded";
      /** Place of the first of them among all texts, from 0. */
      readonly first: number;
      readonly count: number;
      /** Numbers in a vector. */
      readonly dimension: number;
      /** `count` vectors, one after the other. */
      readonly values: Float32Array<ArrayBuffer>;
      /** Tokens that the model read, of each text. */
      readonly tokens: Uint32Array<ArrayBuffer>;
      /** 1 where a text is longer than the model reads: what came after its limit is not in the vector. */
      readonly truncated: Uint8Array<ArrayBuffer>;
      /** Verified. */
      readonly receipt: ReceiptReport;
      /** Audit bundle as JSON, without request and response. */
      readonly bundle: string;
      /** What `bundleWithContent` adds: the request, which holds the salt of the commitments, and the whole response, of which
       * the tensors above are views. */
      readonly request: Uint8Array;
      readonly response: Uint8Array<ArrayBuffer>;
    }
  | {
      /**
       * The enclave found the texts wrong, or failed: sent again they are likely to end alike. The stream goes on. A text that the
       * enclave refuses is alone in this, and its neighbours have their vectors; several texts are in it only where the reason is
       * none of them.
       */
      readonly status: "rejected";
      readonly first: number;
      readonly count: number;
      /** Inner status code; 413 for a text that is longer than a channel takes, which is not sent. */
      readonly httpStatus: number;
      /** Why, as the enclave gave it: `INPUT_EMPTY`, `TEXT_TOO_LONG`, … */
      readonly code: string;
      readonly detail: string;
    };

/** Why a stream ended early. */
export class StreamError extends Error {
  override readonly name = "StreamError";
  readonly code: string;
  readonly remedy: string;
  /** A bad network explains it: the same may work later. Never true of refused evidence or forged bytes. */
  readonly transient: boolean;
  /** The enclave has other keys than those that were verified. */
  readonly stale: boolean;
  /** Where the enclave was judged again and refused. The session is closed then. */
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

/** Why a trust policy was not taken. */
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

/** Why a sealed `fetch` gave no response. */
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
