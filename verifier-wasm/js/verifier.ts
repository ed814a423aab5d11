import type {
  AttestationReport,
  ChannelOutcome,
  ExchangeOutcome,
  TensorLayout,
} from "../pkg/clearseal_verifier.js";
import type { Evidence } from "./types.js";

/** Interface of the wasm module that the client uses; tests replace it. */
export interface Verifier {
  /** The embedded trust policy as JSON, if there is one. */
  embeddedPolicy(): string | null;
  challenge(): Challenge;
  /** Appraises evidence under `policy`, as an answer to its nonce at `atMs`. Returns no enclave. */
  judge(evidence: Evidence, policy: string, atMs: number): AttestationReport;
}

export interface Challenge {
  readonly nonce: string;
  readonly nonceHex: string;
  /** Certificate revocation lists in DER, concatenated, for the check of the evidence. */
  setCrls(crls: Uint8Array): void;
  /** Consumes the challenge. Never returns a simulated enclave. `subtle` verifies signatures; without it the module does. */
  verify(
    evidence: Uint8Array,
    policy: string | null | undefined,
    nowMs: number,
    subtle: SubtleCrypto | null | undefined,
  ): Promise<Verification>;
  /** Consumes the challenge. May return a simulated enclave. */
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
  /** Does the part of the next `seal` that does not depend on the request in advance. */
  prepare(): void;
  seal(method: string, path: string, headers: string[], content: Uint8Array, nowMs: number): Sealed;
  /** Opens a channel to this enclave, which may outlive this handle. */
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
