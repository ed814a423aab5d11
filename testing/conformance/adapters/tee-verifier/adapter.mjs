// Adapter for @0xsequence/tee-verifier: calls the functions that its own `fetch` calls for trust and signature, in the same
// order.
import { webcrypto } from "node:crypto";
import { createInterface } from "node:readline";

// The package is written for browsers.
globalThis.crypto ??= webcrypto;
globalThis.window ??= globalThis;
const { SignedAttestation } = await import("@0xsequence/tee-verifier");

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  process.stdout.write(`${JSON.stringify({ id: request.id, ...(await judge(request)) })}\n`);
}

async function judge(request) {
  // It compares registers and nonce only inside `fetch`, which trusts only AWS's root.
  if (request.policy !== null) {
    return { verdict: "unsupported", code: "" };
  }
  try {
    const attestation = SignedAttestation.fromDocument(request.document);
    if (!(await attestation.verifyRootOfTrust(new Date(request.time)))) {
      return { verdict: "refuse", code: "Invalid root of trust" };
    }
    if ((await attestation.rootCertFingerprint()) !== (await fingerprint(request.root))) {
      return { verdict: "refuse", code: "Invalid root certificate fingerprint" };
    }
    if (!(await attestation.verifySignature())) {
      return { verdict: "refuse", code: "Invalid signature" };
    }
    return { verdict: "accept", code: "" };
  } catch (error) {
    // It refuses with exceptions.
    return { verdict: "refuse", code: String(error) };
  }
}

async function fingerprint(root) {
  const digest = await crypto.subtle.digest("SHA-256", Buffer.from(root, "base64"));
  return Buffer.from(digest).toString("hex");
}
