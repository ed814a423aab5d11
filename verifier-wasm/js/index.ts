/**
 * Verifies an enclave before sending anything, then encrypts every request to it.
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
  BundleAppraisal,
  ReceiptReport,
  Row,
  VectorAppraisal,
} from "../pkg/clearseal_verifier.js";
import wasm, * as module from "../pkg/clearseal_verifier.js";
import { connectWith } from "./client.js";
import type { PlatformModule, PlatformResponse, PlatformSubtleCrypto, PlatformURL } from "./platform.js";
import { policyText } from "./policy.js";
import {
  type Connection,
  type ConnectOptions,
  type Evidence,
  ModuleUnavailable,
  type PolicyInput,
} from "./types.js";
import type { Verifier } from "./verifier.js";

export type {
  AttestationReport,
  AuditAppraisal,
  AuditBasis,
  AuditIntake,
  AuditPolicy,
  AuditSummary,
  BundleAppraisal,
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
  RankedDocument,
  Ranking,
  RerankOptions,
  SealedMessage,
  ServedModel,
  Session,
  StreamedBatch,
  StreamOptions,
  StreamProgress,
} from "./types.js";
export { ModuleUnavailable, PolicyUnusable, SealedFetchError, StreamError } from "./types.js";

let loading: Promise<void> | null = null;

/** The package's WebAssembly file (`@clearseal/verifier/module.wasm`): compiled, its bytes, a response with them, or its address. */
export type ModuleSource = PlatformModule | ArrayBuffer | ArrayBufferView | PlatformResponse | PlatformURL;

/**
 * Loads the wasm module once; concurrent calls share one load. May be called again after a failure. Without `source`, loads the
 * file next to this one, which needs `import.meta.url`; rejects with {@link ModuleUnavailable} if it cannot be loaded.
 */
export function initialise(source?: ModuleSource): Promise<void> {
  loading ??= load(source).catch((cause: unknown) => {
    loading = null;
    throw cause;
  });
  return loading;
}

/**
 * Verifies the service at `url`. There is a session only if every check passed (`trusted`), or if the caller passed
 * `allowSimulated` and the enclave is simulated (`simulated`).
 */
export async function connect(url: string | PlatformURL, options: ConnectOptions = {}): Promise<Connection> {
  await initialise();
  return connectWith(verifier, url, options);
}

/**
 * Appraises (possibly altered) evidence again, as of `atMs`. Pure: no network, and never a session.
 *
 * `policy` is chosen by the caller and defaults to the policy of this build. The policy inside the evidence is used only if
 * there is neither, and then the verdict is *simulated* at best: evidence must not choose the policy that accepts it.
 */
export function judge(
  evidence: Evidence,
  atMs: number,
  options: { readonly policy?: PolicyInput } = {},
): AttestationReport {
  const { bytes, nonce, policy, crls } = evidence;
  return module.judgeEvidence(bytes, nonce, policyText(options.policy), policy, atMs, crls);
}

/** Every check of an attestation, in the state `not-run`. */
export function questions(): Row[] {
  return module.questions();
}

/** Is this document authentic under AWS's root, and what does it contain? The image is not appraised. */
export function inspectDocument(document: Uint8Array, atMs: number): AttestationReport {
  return module.inspectDocument(document, atMs);
}

/** As {@link inspectDocument}, but verifies signatures with WebCrypto where available: faster, with the same report. */
export async function inspectDocumentFast(
  document: Uint8Array,
  atMs: number,
  subtle: PlatformSubtleCrypto | null = globalThis.crypto?.subtle ?? null,
): Promise<AttestationReport> {
  return module.inspectDocumentFast(document, atMs, subtle);
}

/** Clears the cache of verified certificate signatures. */
export function forgetSignatures(): void {
  module.forgetSignatures();
}

/** Adds the request and response of a {@link StreamedBatch} to its bundle: anyone who reads it can then open the commitments.
 * Returns an empty string if `bundle` is not a bundle. */
export function bundleWithContent(bundle: string, request: Uint8Array, response: Uint8Array): string {
  return module.bundleWithContent(bundle, request, response) ?? "";
}

/** Adds only the salt of a {@link StreamedBatch} to its bundle: anyone who already has a text can then check that the receipt
 * is about it. Returns an empty string if `bundle` is not a bundle. */
export function bundleWithSalt(bundle: string, request: Uint8Array): string {
  return module.bundleWithSalt(bundle, request) ?? "";
}

/** Verifies an audit bundle (receipt and attestation), as of the receipt's time. `policy` defaults to the policy of this build. */
export function verifyBundle(json: string, policy: PolicyInput | null): BundleAppraisal {
  return module.verifyBundle(json, policyText(policy));
}

/**
 * Verifies one row of an index: was this vector computed from this text, by the model and image that its receipt names? `row` is a
 * line that `clearseal embed` wrote; `proof` is the evidence line and the line of this row, both from the file of proofs. `policy`
 * defaults to the policy of this build. `serverPolicy`, the development policy of a simulated service, is used only if there is
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

/** Verifies a receipt under a key (32 bytes) that the caller passes. The verdict is *signed* at best: it shows which key signed,
 * not that an enclave holds it. */
export function verifyReceipt(receipt: Uint8Array, key: Uint8Array): ReceiptReport {
  return module.verifyReceipt(receipt, key);
}

/** Version of the verifier, and the name of the embedded trust policy. */
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

async function load(source: ModuleSource | undefined): Promise<void> {
  if (source !== undefined) {
    await wasm({ module_or_path: source });
    return;
  }
  try {
    await wasm({ module_or_path: await packagedModule() });
  } catch (cause) {
    throw new ModuleUnavailable(cause);
  }
}

/** Node's `fetch` does not read files, so in Node the module is read from disk. */
async function packagedModule(): Promise<ModuleSource> {
  // Bundlers recognise this form and ship the module with the page. Only here: workerd and CommonJS bundles have no such address,
  // and take the module from `initialise`.
  const address = new URL("../pkg/clearseal_verifier_bg.wasm", import.meta.url);
  if (address.protocol !== "file:") return address;
  // In a variable, so that bundlers for browsers do not resolve it.
  const name = "node:fs/promises";
  const fs: typeof import("node:fs/promises") = await import(
    /* webpackIgnore: true */ /* @vite-ignore */ name
  );
  return new Uint8Array(await fs.readFile(address));
}
