import type {
  AttestationReport,
  ChannelOutcome,
  ExchangeOutcome,
  TensorLayout,
} from "../pkg/clearseal_verifier.js";
import type { Evidence } from "./types.js";

/** What the client needs of the wasm module; the classes of the module have exactly these members. */
export interface Verifier {
  /** Whether a trust policy is compiled in, as JSON. */
  embeddedPolicy(): string | null;
  challenge(): Challenge;
  /** Judges evidence by `policy`, as an answer to its nonce at that moment; gives no enclave. */
  judge(evidence: Evidence, policy: string, atMs: number): AttestationReport;
}

export interface Challenge {
  readonly nonce: string;
  readonly nonceHex: string;
  /** Certificate revocation lists in DER, one after another, to judge the evidence with. */
  setCrls(crls: Uint8Array): void;
  /** Consumes the challenge. Gives no simulated enclave. `subtle` computes signatures; without it the module does. */
  verify(
    evidence: Uint8Array,
    policy: string | null | undefined,
    nowMs: number,
    subtle: SubtleCrypto | null | undefined,
  ): Promise<Verification>;
  /** Consumes the challenge. Gives a simulated enclave too. */
  verifyAllowingSimulation(
    evidence: Uint8Array,
    policy: string | null | undefined,
    serverPolicy: string | null | undefined,
    nowMs: number,
    subtle: SubtleCrypto | null | undefined,
  ): Promise<Verification>;
}

export interface Verification {
  report(): AttestationReport;
  takeEnclave(): Enclave | undefined;
  free(): void;
}

export interface Enclave {
  readonly validUntilMs: number;
  readonly hint: string;
  /** Does ahead what of the next seal does not depend on its request. */
  prepare(): void;
  seal(method: string, path: string, headers: string[], content: Uint8Array, nowMs: number): Sealed;
  /** A channel to this enclave; it may outlive this handle. */
  openChannel(): Channel;
  free(): void;
}

export interface Channel {
  hello(): Uint8Array;
  feed(bytes: Uint8Array): void;
  next(nowMs: number): ChannelEvent | undefined;
  framesOpened(): number;
  connectionEnded(): ChannelEvent | undefined;
  seal(method: string, path: string, headers: string[], content: Uint8Array, nowMs: number): ChannelBytes;
  close(): ChannelBytes;
  free(): void;
}

export interface ChannelEvent {
  outcome(): ChannelOutcome;
  takeBytes(): Uint8Array | undefined;
  takeAnswer(): Opened | undefined;
  free(): void;
}

export interface ChannelBytes {
  takeBytes(): Uint8Array | undefined;
  refusal(): ChannelOutcome | undefined;
  free(): void;
}

export interface Sealed {
  takeBytes(): Uint8Array | undefined;
  refusal(): ExchangeOutcome | undefined;
  /** Consumes the request. */
  open(sealed: Uint8Array, nowMs: number): Opened;
  free(): void;
}

export interface Opened {
  outcome(): ExchangeOutcome;
  body(): Uint8Array;
  bundle(withContent: boolean): string | undefined;
  bundleWithSalt(): string | undefined;
  tensors(): TensorLayout | undefined;
  request(): Uint8Array;
  free(): void;
}
