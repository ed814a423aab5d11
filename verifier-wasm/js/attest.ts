import type { AttestationReport } from "../pkg/clearseal_verifier.js";
import { demandModel } from "./models.js";
import { request, type Transport, unreachable } from "./transport.js";
import type { Evidence, Problem, ServedModel } from "./types.js";
import type { Enclave, Verifier } from "./verifier.js";

const LONGEST_EVIDENCE = 32 * 1024;
const LONGEST_POLICY = 64 * 1024;
const LONGEST_CRLS = 10 * 1024 * 1024;
/** Longest for revocation lists after the evidence came, where the policy can do without. */
const LISTS_WAIT_MS = 2000;

export interface Service {
  readonly verifier: Verifier;
  readonly transport: Transport;
  /** Ends in a slash. */
  readonly base: URL;
  /** Chosen by the caller. */
  readonly policy: string | null;
  /** Demanded in place of the policy's model; the policy must accept the enclave too. */
  readonly model: ServedModel | null;
  readonly allowSimulated: boolean;
  readonly now: () => number;
  /** Verifies signatures instead of the module; undefined: the module verifies all of them. */
  readonly subtle: SubtleCrypto | undefined;
  /** For streams; undefined if the platform has none. */
  readonly webSocket: (new (url: string) => WebSocket) | undefined;
}

export type Attested =
  | {
      /** `simulated` only if the caller allowed it. */
      readonly status: "trusted" | "simulated";
      readonly report: AttestationReport;
      readonly evidence: Evidence;
      readonly enclave: Enclave;
    }
  | { readonly status: "refused"; readonly report: AttestationReport; readonly evidence: Evidence }
  | { readonly status: "unreachable"; readonly problem: Problem };

/** One live check: a fresh nonce, the evidence that answers it, revocation lists, the verdict. Sends only the nonce. */
export async function attest(service: Service, signal: AbortSignal | undefined): Promise<Attested> {
  const { verifier, transport, base, model } = service;
  const challenge = verifier.challenge();
  const { nonce, nonceHex } = challenge;
  // `shared`: one document may answer several clients, with a proof that it covers our nonce.
  const url = new URL(`v1/attestation?nonce=${nonce}&shared=1`, base);
  const own = service.policy ?? verifier.embeddedPolicy();
  // A service's own policy is only for development, so it is not requested otherwise.
  const asksTheService = own === null && service.allowSimulated;
  const headers = { accept: "application/cbor" };
  const answered = request(transport, url, LONGEST_EVIDENCE, { headers }, signal)
    // The enclave's clock is compared with this moment, whenever the rest comes.
    .then((answer) => ({ reply: answer, now: service.now() }));
  const listing = new AbortController();
  const lists = revocationLists(service, signal, listing.signal);
  const [{ reply, now }, serverPolicy] = await Promise.all([
    answered,
    asksTheService ? developmentPolicy(service, signal) : null,
  ]);
  if (reply.status !== "ok") {
    listing.abort();
    if (reply.status === "unreachable") return reply;
    return unreachable(reply.status === "denied" ? reply.problem : ODD);
  }
  const waits = requiresLists(own ?? serverPolicy);
  const crls = (waits ? await lists : await within(lists, LISTS_WAIT_MS)) ?? new Uint8Array(0);
  listing.abort();
  challenge.setCrls(crls);
  // Passed separately from the service's own, which leads to *simulated* at best.
  const demanded = model && own !== null ? demandModel(own, model) : service.policy;
  const offered = model && serverPolicy !== null ? demandModel(serverPolicy, model) : serverPolicy;
  const verifying = service.allowSimulated
    ? challenge.verifyAllowingSimulation(reply.bytes, demanded, offered, now, service.subtle)
    : challenge.verify(reply.bytes, demanded, now, service.subtle);
  const verification = await within(verifying, transport.timeoutMs);
  if (!verification) return unreachable(SILENT);
  const report = verification.report();
  const enclave = verification.takeEnclave();
  verification.free();
  const evidence: Evidence = {
    bytes: reply.bytes,
    nonce: nonceHex,
    policy: demanded ?? own ?? offered,
    crls,
  };
  if (!enclave) return { status: "refused", report, evidence };
  const policy = own ?? serverPolicy;
  if (model && policy !== null) {
    const judged = verifier.judge(evidence, policy, now);
    if (judged.verdict === "refused") {
      enclave.free();
      return { status: "refused", report: judged, evidence: { ...evidence, policy } };
    }
  }
  // The verdict distinguishes a verified enclave from a simulated one.
  return { status: report.verdict === "verified" ? "trusted" : "simulated", report, evidence, enclave };
}

/** Certificate revocation lists that the host serves; empty if it serves none, which the policy may refuse. Every client sends
 * the same request, so that it reveals nothing. */
async function revocationLists(
  service: Service,
  ...signals: readonly (AbortSignal | undefined)[]
): Promise<Uint8Array> {
  const url = new URL("v1/crls", service.base);
  const reply = await request(service.transport, url, LONGEST_CRLS, {}, ...signals);
  return reply.status === "ok" ? reply.bytes : new Uint8Array(0);
}

/** Whether a policy refuses evidence that comes without revocation lists. An unreadable policy is refused anyway. */
function requiresLists(policy: string | null): boolean {
  try {
    return policy !== null && JSON.parse(policy)?.revocation === "required";
  } catch {
    return false;
  }
}

/** Development policy of a simulated service; `null` if it has none. Never leads to *verified*. */
async function developmentPolicy(service: Service, signal: AbortSignal | undefined): Promise<string | null> {
  const url = new URL("v1/development-policy", service.base);
  const reply = await request(
    service.transport,
    url,
    LONGEST_POLICY,
    { headers: { accept: "application/json" } },
    signal,
  );
  return reply.status === "ok" ? new TextDecoder().decode(reply.bytes) : null;
}

/** Timeout for `promise`, which never settles if the module traps or WebCrypto never answers. */
async function within<T>(promise: Promise<T>, timeoutMs: number): Promise<T | null> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

const SILENT: Problem = {
  code: "VERIFIER_SILENT",
  title: "The verifier gave no verdict in time",
  detail: "The evidence arrived, and judging it did not come to an end. Nothing was sent.",
  remedy: "Load the verifier again; if it stays silent, pass `accelerate: false`.",
};

const ODD: Problem = {
  code: "HOST_REFUSED",
  title: "The host gave an answer that does not belong here",
  detail: "It speaks of an unknown key, but no key was used.",
  remedy: "Check the address; suspect the host.",
};
