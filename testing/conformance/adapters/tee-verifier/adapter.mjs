// Adapter of @0xsequence/tee-verifier: what its own `fetch` calls for trust and signature, in the same order.
import { webcrypto } from "node:crypto";
import { createInterface } from "node:readline";

// It is made for a browser.
globalThis.crypto ??= webcrypto;
globalThis.window ??= globalThis;
const { SignedAttestation } = await import("@0xsequence/tee-verifier");

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  process.stdout.write(`${JSON.stringify({ id: request.id, ...(await judge(request)) })}\n`);
}

async function judge(request) {
  // Registers and nonce are compared inside its `fetch`, which trusts AWS's root alone.
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
    // Exceptions are how it refuses.
    return { verdict: "refuse", code: String(error) };
  }
}

async function fingerprint(root) {
  const digest = await crypto.subtle.digest("SHA-256", Buffer.from(root, "base64"));
  return Buffer.from(digest).toString("hex");
}
