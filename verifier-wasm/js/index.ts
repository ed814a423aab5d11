/**
 * Verifies an enclave before a word is sent, then talks to it under a seal.
 *
 * ```ts
 * import { connect } from "@clearseal/verifier";
 *
 * const connection = await connect(url, { policy });
 * if (connection.status !== "trusted") {
 *   throw new Error(`the enclave at ${url} is not verified: ${connection.status}`);
 * }
 * const response = await connection.session.fetch("/v1/embeddings", {
 *   method: "POST",
 *   headers: { "content-type": "application/json" },
 *   body: JSON.stringify({ model: "all-MiniLM-L6-v2", input: "a sentence" }),
 * });
 * ```
 *
 * OpenAI's own client works over it: `new OpenAI({ baseURL: url + "/v1", apiKey: "none", fetch: connection.session.fetch })`.
 */

import type {
  AttestationReport,
  BundleJudgement,
  ReceiptReport,
  Row,
  VectorAppraisal,
} from "../pkg/clearseal_verifier.js";
import wasm, * as module from "../pkg/clearseal_verifier.js";
import { connectWith } from "./client.js";
import { policyText } from "./policy.js";
import type { Connection, ConnectOptions, Evidence, PolicyInput } from "./types.js";
import type { Verifier } from "./verifier.js";

export type {
  AttestationReport,
  AuditBasis,
  AuditIntake,
  AuditAppraisal,
  AuditPolicy,
  AuditSummary,
  BundleJudgement,
  CertificateView,
  ClaimsView,
  DocumentView,
  LogReport,
  ManifestView,
  MeasurementsView,
  OpenedContent,
  PcrView,
  PolicyView,
  ReceiptReport,
  Row,
  RowState,
  Statement,
  VectorAppraisal,
  Verdict,
} from "../pkg/clearseal_verifier.js";
export { Auditor } from "../pkg/clearseal_verifier.js";
export type {
  Connection,
  ConnectOptions,
  Evidence,
  ExchangeResult,
  PolicyInput,
  PolicySource,
  Problem,
  SealedMessage,
  Session,
  StreamedBatch,
  StreamOptions,
  StreamProgress,
} from "./types.js";
export { PolicyUnusable, SealedFetchError, StreamError } from "./types.js";

let loading: Promise<void> | null = null;

/** Loads the wasm module once; a second call waits for the first. After a failure it may be tried again. */
export function initialise(source?: BufferSource | Response | URL): Promise<void> {
  loading ??= load(source).catch((cause: unknown) => {
    loading = null;
    throw cause;
  });
  return loading;
}

/**
 * Verifies the service at `url`. A session exists only where every check passed (`trusted`), or where the caller allowed a
 * simulated enclave by name (`simulated`).
 */
export async function connect(url: string | URL, options: ConnectOptions = {}): Promise<Connection> {
  await initialise();
  return connectWith(verifier, url, options);
}

/**
 * Judges (possibly altered) evidence again, as of `atMs`. Pure: no network, and never a session.
 *
 * `policy` is the one that the caller chose; without it, that of this build counts. The policy inside the evidence is
 * considered only where there is neither, and then the verdict is *simulated* at best: evidence does not choose its judge.
 */
export function judge(
  evidence: Evidence,
  atMs: number,
  options: { readonly policy?: PolicyInput } = {},
): AttestationReport {
  const { bytes, nonce, policy, crls } = evidence;
  return module.judgeEvidence(bytes, nonce, policyText(options.policy), policy, atMs, crls);
}

/** Every check of an attestation, not run: what will be asked. */
export function questions(): Row[] {
  return module.questions();
}

/** Is this document authentic under AWS's root, and what does it say? The image is not judged. */
export function inspectDocument(document: Uint8Array, atMs: number): AttestationReport {
  return module.inspectDocument(document, atMs);
}

/** The same with signatures computed by WebCrypto where there is one: faster, and the same report. */
export async function inspectDocumentFast(
  document: Uint8Array,
  atMs: number,
  subtle: SubtleCrypto | null = globalThis.crypto?.subtle ?? null,
): Promise<AttestationReport> {
  return module.inspectDocumentFast(document, atMs, subtle);
}

/** Lets go of the signatures that were verified before and need not be computed again. */
export function forgetSignatures(): void {
  module.forgetSignatures();
}

/** Adds request and response of a {@link StreamedBatch} to its bundle: whoever reads it can then open the commitments. Empty
 * where `bundle` is none. */
export function bundleWithContent(bundle: string, request: Uint8Array, response: Uint8Array): string {
  return module.bundleWithContent(bundle, request, response) ?? "";
}

/** Adds the salt of a {@link StreamedBatch} to its bundle, and no text: whoever reads it can see whether the receipt is about a text
 * that they have. Empty where `bundle` is none. */
export function bundleWithSalt(bundle: string, request: Uint8Array): string {
  return module.bundleWithSalt(bundle, request) ?? "";
}

/** Judges an audit bundle as one chain, as of the receipt's time. Without a policy, by the policy of this build. */
export function verifyBundle(json: string, policy: PolicyInput | null): BundleJudgement {
  return module.verifyBundle(json, policyText(policy));
}

/**
 * Judges one row of an index: was this vector computed from this text, by the model and in the image of its receipt? `row` is a
 * line that `clearseal embed` wrote, `proof` the line of evidence and the row's own line out of its file of proofs. Without a
 * policy, by the policy of this build; `serverPolicy`, what a simulating service says of itself, counts only where there is
 * neither, and then no verdict is better than *simulated*.
 */
export function verifyVector(
  row: string,
  proof: string,
  policy: PolicyInput | null,
  serverPolicy: string | null = null,
): VectorAppraisal {
  return module.verifyVector(row, proof, policyText(policy), serverPolicy ?? undefined);
}

/** Verifies a receipt under a key (32 bytes) that the caller names. The verdict is *signed* at best: it shows who signed, not
 * that an enclave did. */
export function verifyReceipt(receipt: Uint8Array, key: Uint8Array): ReceiptReport {
  return module.verifyReceipt(receipt, key);
}

/** Version of the verifier, and the name of the trust policy that is compiled in. */
export function buildInfo(): { version: string; policy: string | null } {
  const { version, policy } = module.buildInfo();
  return { version, policy };
}

const verifier: Verifier = {
  embeddedPolicy: () => module.buildInfo().policyJson,
  challenge: () => new module.Challenge(),
  judge: ({ bytes, nonce, crls }, policy, atMs) =>
    module.judgeEvidence(bytes, nonce, policy, undefined, atMs, crls),
};

/** Bundlers follow this form and ship the module beside the page. */
const MODULE = new URL("../pkg/clearseal_verifier_bg.wasm", import.meta.url);

async function load(source: BufferSource | Response | URL | undefined): Promise<void> {
  await wasm({ module_or_path: source ?? (await packaged()) });
}

/** Node's `fetch` does not read files, so there the module is read as one. */
async function packaged(): Promise<BufferSource | URL> {
  if (MODULE.protocol !== "file:") return MODULE;
  // A name in a variable: bundlers for browsers must not follow it.
  const name = "node:fs/promises";
  const fs: typeof import("node:fs/promises") = await import(/* @vite-ignore */ name);
  return new Uint8Array(await fs.readFile(MODULE));
}
