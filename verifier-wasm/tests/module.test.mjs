/** Tests of the real module that need no enclave. The path to a real server is tested elsewhere. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Auditor,
  buildInfo,
  connect,
  initialise,
  inspectDocument,
  judge,
  questions,
  verifyBundle,
  verifyReceipt,
} from "../dist/index.js";
import { evidence, fakeFetch, ORIGIN } from "./fakes.mjs";

await initialise();
const NOW = 1_795_183_380_000;

test("the module loads once, and reports its version", async () => {
  assert.equal(initialise(), initialise());
  const { version, policy } = buildInfo();
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.ok(policy === null || typeof policy === "string");
});

test("the checks are listed before they run", () => {
  const rows = questions();
  assert.equal(rows.length, 27);
  assert.ok(rows.every((row) => row.state === "not-run" && row.code === null && row.micros === null));
});

test("garbage is refused with a report, and times are measured", () => {
  const report = inspectDocument(new Uint8Array([1, 2, 3]), NOW);
  assert.equal(report.verdict, "refused");
  assert.equal(report.judgedAtMs, NOW);
  assert.equal(typeof report.code, "string");
  const failed = report.checks.find((row) => row.state === "failed");
  assert.equal(failed.code, report.code);
  assert.equal(typeof failed.micros, "number");
});

test("invalid times lead to a refusal, not an exception", () => {
  for (const at of [Number.NaN, -1, Number.POSITIVE_INFINITY, 1e300]) {
    assert.equal(inspectDocument(new Uint8Array(4), at).verdict, "refused");
  }
});

test("invalid evidence and an invalid policy lead to refusals", async () => {
  for (const policy of ["", "{", "{}", '{"format":"other"}']) {
    const { fetch } = fakeFetch({ "/v1/attestation": evidence });
    const connection = await connect(ORIGIN, { fetch, policy });
    assert.equal(connection.status, "refused");
    assert.equal(typeof connection.report.code, "string");
    assert.ok(connection.report.checks.every((row) => row.state === "not-run"));
    const again = judge(connection.evidence, NOW, { policy });
    assert.equal(again.code, connection.report.code);
  }
});

test("a missing policy is refused", { skip: buildInfo().policy !== null }, async () => {
  const { fetch } = fakeFetch({ "/v1/attestation": evidence });
  const connection = await connect(ORIGIN, { fetch });
  assert.equal(connection.status, "refused");
  assert.equal(connection.report.code, "NO_POLICY");
  assert.equal(connection.evidence.policy, null);
});

test("a parsed policy gives the same result as its text", async () => {
  const parsed = { format: "clearseal-trust-policy/1", name: "too little of a policy" };
  for (const policy of [parsed, JSON.stringify(parsed)]) {
    const { fetch } = fakeFetch({ "/v1/attestation": evidence });
    const connection = await connect(ORIGIN, { fetch, policy });
    assert.equal(connection.status, "refused");
    assert.match(connection.report.code, /^POLICY_(?!NOT_TEXT)/);
    assert.equal(connection.evidence.policy, JSON.stringify(parsed));
    assert.equal(judge(connection.evidence, NOW, { policy }).code, connection.report.code);
    assert.equal(
      verifyBundle("{}", policy).receipt.code,
      verifyBundle("{}", JSON.stringify(parsed)).receipt.code,
    );
  }
});

test("a policy that is neither text nor an object is refused, and the module still works", async () => {
  const cycle = {};
  cycle.self = cycle;
  for (const policy of [cycle, { size: 1n }, [], 7, true, Symbol("policy")]) {
    for (const allowSimulated of [false, true]) {
      const { fetch } = fakeFetch({ "/v1/attestation": evidence });
      const connection = await connect(ORIGIN, { fetch, policy, allowSimulated });
      assert.equal(connection.status, "refused");
      assert.equal(connection.report.code, "POLICY_NOT_TEXT");
    }
    assert.equal(verifyBundle("{}", policy).receipt.code, "POLICY_NOT_TEXT");
    const auditor = new Auditor(policy);
    auditor.free();
  }
  // Only a session accepts a function.
  assert.equal(verifyBundle("{}", () => "{}").receipt.code, "POLICY_NOT_TEXT");
  for (const [given, code] of [
    ["{}", "POLICY_UNREADABLE"],
    [7, "POLICY_NOT_TEXT"],
  ]) {
    const { fetch } = fakeFetch({ "/v1/attestation": evidence });
    const connection = await connect(ORIGIN, { fetch, policy: () => given });
    assert.deepEqual([connection.status, connection.report.code], ["refused", code]);
  }
  assert.ok(questions().length > 0);
});

test("invalid bundles and receipts lead to refusals", () => {
  const policy = JSON.stringify({ format: "clearseal-trust-policy/1" });
  for (const json of ["", "{}", '{"format":"clearseal-audit-bundle/1"}']) {
    const { attestation, receipt } = verifyBundle(json, policy);
    assert.equal(attestation.verdict, "refused");
    assert.equal(receipt.verdict, "refused");
    assert.equal(receipt.code, attestation.code);
  }
  assert.equal(verifyReceipt(new Uint8Array(0), new Uint8Array(32)).verdict, "refused");
  assert.equal(verifyReceipt(new Uint8Array(0), new Uint8Array(31)).code, "BAD_KEY");
});
