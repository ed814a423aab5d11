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
}

/** A trust policy as JSON text, or as the object that such text parses to. */
export type PolicyInput = string | { readonly format: string; readonly [member: string]: unknown };

export interface ConnectOptions {
  /** Trust policy, chosen by the caller: its JSON text, or that text parsed. Absent: the policy of this build. With neither,
   * every enclave is refused (`NO_POLICY`). */
  readonly policy?: PolicyInput;
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
  /** Drop-in for `fetch`, which may be passed along by itself, as in `new OpenAI({ fetch: session.fetch })`. The request travels sealed, the promise resolves to the inner response. Rejects with a
   * {@link SealedFetchError} where {@link Session.exchange} would not have answered, and like `fetch` when aborted. */
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  /** One sealed request with its receipt. Resolves whatever happens: a refusal is an outcome. */
  exchange(message: SealedMessage, options?: { readonly signal?: AbortSignal }): Promise<ExchangeResult>;
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
