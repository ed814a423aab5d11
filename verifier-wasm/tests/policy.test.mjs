import assert from "node:assert/strict";
import { test } from "node:test";
import { connectWith } from "../dist/client.js";
import { PolicyUnusable, StreamError } from "../dist/types.js";
import { answer, evidence, fakeFetch, fakeVerifier, hang, ORIGIN } from "./fakes.mjs";
import { embedded, fakeSockets } from "./stream-fakes.mjs";

const MESSAGE = { method: "POST", path: "/v1/embeddings", body: "{}" };

async function opened(routes, { verdicts, options = {} } = {}) {
  const { verifier, seen } = fakeVerifier({ verdicts });
  const network = fakeFetch({ "/v1/attestation": evidence, ...routes });
  const connection = await connectWith(verifier, ORIGIN, {
    fetch: network.fetch,
    policy: "first",
    ...options,
  });
  assert.equal(connection.status, "trusted");
  return { session: connection.session, network, seen };
}

test("after a policy change the enclave is verified again before anything is sent", async () => {
  const { session, network, seen } = await opened({ "/v1/gateway": answer() });
  assert.equal((await session.exchange(MESSAGE)).status, "answered");
  session.setPolicy("second");
  assert.equal(network.to("/v1/attestation").length, 1, "only when something is to be sent");
  assert.ok(session.validUntilMs < 0);
  assert.equal((await session.exchange(MESSAGE)).status, "answered");
  assert.deepEqual(
    seen.judged.map((judgement) => judgement.policy),
    ["first", "second"],
  );
  assert.deepEqual(
    seen.sealed.map((request) => request.number),
    [1, 2],
  );
  // Setting the same policy again changes nothing.
  session.setPolicy("second");
  assert.equal((await session.exchange(MESSAGE)).status, "answered");
  assert.equal(seen.judged.length, 2);
});

test("a withdrawn release gets nothing, and the code is POLICY_WITHDRAWN", async () => {
  const { session, network, seen } = await opened(
    { "/v1/gateway": answer() },
    { verdicts: ["trusted", "PCR_MISMATCH"] },
  );
  assert.equal((await session.exchange(MESSAGE)).status, "answered");
  session.setPolicy("second");
  const result = await session.exchange(MESSAGE);
  assert.equal(result.status, "refused");
  assert.equal(result.code, "POLICY_WITHDRAWN");
  assert.match(result.message, /PCR_MISMATCH/);
  assert.equal(result.report.code, "PCR_MISMATCH");
  assert.equal(network.to("/v1/attestation").length, 2, "one search for another enclave");
  assert.equal(network.to("/v1/gateway").length, 1);
  assert.deepEqual(
    seen.sealed.map((request) => request.number),
    [1],
  );
  assert.equal((await session.exchange(MESSAGE)).problem.code, "SESSION_CLOSED");
  assert.throws(() => session.setPolicy("third"), { code: "SESSION_CLOSED" });
});

test("a refusal without a policy change keeps its code", async () => {
  let now = 0;
  const { verifier } = fakeVerifier({ verdicts: ["trusted", "PCR_MISMATCH"], lives: [10] });
  const network = fakeFetch({ "/v1/attestation": evidence });
  const options = { fetch: network.fetch, policy: "first", now: () => now };
  const { session } = await connectWith(verifier, ORIGIN, options);
  now = 11;
  assert.equal((await session.exchange(MESSAGE)).code, "PCR_MISMATCH");
});

test("a request in flight is aborted, and sent again if the enclave is accepted", async () => {
  for (const [verdict, expected] of [
    ["trusted", "answered"],
    ["PCR_MISMATCH", "refused"],
  ]) {
    const routes = { "/v1/gateway": [hang, answer()] };
    const { session, network } = await opened(routes, { verdicts: ["trusted", verdict] });
    const running = session.exchange(MESSAGE);
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(network.to("/v1/gateway").length, 1);
    session.setPolicy("second");
    const result = await running;
    assert.equal(result.status, expected);
    assert.ok(network.to("/v1/gateway")[0].init.signal.aborted);
    assert.equal(network.to("/v1/gateway").length, verdict === "trusted" ? 2 : 1);
  }
});

test("a check that was running when the policy was changed is repeated", async () => {
  const slow = async () => {
    await new Promise((resolve) => setTimeout(resolve, 10));
    return evidence();
  };
  const { session, seen } = await opened(
    { "/v1/attestation": [evidence, slow, evidence], "/v1/gateway": answer() },
    { verdicts: ["trusted", "trusted", "PCR_MISMATCH"] },
  );
  session.setPolicy("second");
  const running = session.exchange(MESSAGE);
  await new Promise((resolve) => setTimeout(resolve, 2));
  session.setPolicy("third");
  const result = await running;
  assert.equal(result.code, "POLICY_WITHDRAWN");
  assert.deepEqual(
    seen.judged.map((judgement) => judgement.policy),
    ["first", "second", "third"],
  );
  assert.equal(seen.sealed.length, 0);
});

test("an invalid policy is refused, and the previous one stays in force", async () => {
  const { session, network } = await opened({ "/v1/gateway": answer() });
  assert.throws(
    () => session.setPolicy("unusable"),
    (error) => {
      assert.ok(error instanceof PolicyUnusable);
      assert.equal(error.code, "POLICY_UNREADABLE");
      return true;
    },
  );
  assert.throws(() => session.setPolicy(null), { code: "POLICY_NOT_TEXT" });
  assert.equal((await session.exchange(MESSAGE)).status, "answered");
  assert.equal(network.to("/v1/attestation").length, 1);
});

test("a source is asked again when its answer is old, and its failure changes nothing", async () => {
  let now = 0;
  let asked = 0;
  let given = "first";
  const policy = async () => {
    asked += 1;
    if (given instanceof Error) throw given;
    return given;
  };
  const { session, seen } = await opened(
    { "/v1/gateway": answer() },
    { verdicts: ["trusted", "PCR_MISMATCH"], options: { policy, policyEveryMs: 1000, now: () => now } },
  );
  assert.equal((await session.exchange(MESSAGE)).status, "answered");
  assert.equal(asked, 1);
  now = 1000;
  given = new Error("no such file");
  assert.equal((await session.exchange(MESSAGE)).status, "answered");
  assert.equal(asked, 2);
  assert.equal(session.policyProblem.code, "POLICY_SOURCE_FAILED");
  now = 2000;
  given = "unusable";
  assert.equal((await session.exchange(MESSAGE)).status, "answered");
  assert.equal(session.policyProblem.code, "POLICY_UNREADABLE");
  now = 3000;
  given = "first";
  assert.equal((await session.exchange(MESSAGE)).status, "answered");
  assert.equal(session.policyProblem, null);
  assert.equal(seen.judged.length, 1);
  now = 4000;
  given = "second";
  const results = await Promise.all([session.exchange(MESSAGE), session.exchange(MESSAGE)]);
  assert.equal(asked, 5, "once for all that wait");
  assert.deepEqual(
    results.map((result) => result.code),
    ["POLICY_WITHDRAWN", "POLICY_WITHDRAWN"],
  );
});

test("there is no session without a first policy from the source", async () => {
  const network = fakeFetch({ "/v1/attestation": evidence });
  const policy = () => {
    throw new Error("no such file");
  };
  const connection = await connectWith(fakeVerifier().verifier, ORIGIN, { fetch: network.fetch, policy });
  assert.equal(connection.status, "unreachable");
  assert.equal(connection.problem.code, "POLICY_SOURCE_FAILED");
  assert.equal(network.calls.length, 0);
});

test("a channel is closed before its next batch, and the rest is sent to an accepted enclave", async () => {
  for (const verdict of ["trusted", "PCR_MISMATCH"]) {
    let session;
    const { FakeSocket, seen } = fakeSockets((connection) => (input) => {
      if (connection === 1 && input[0] === "2") setTimeout(() => session.setPolicy("second"), 0);
      return embedded(input);
    });
    const made = await opened({}, { verdicts: ["trusted", verdict], options: { webSocket: FakeSocket } });
    session = made.session;
    const texts = Array.from({ length: 20 }, (_, at) => String(at));
    const values = [];
    let failure = null;
    try {
      for await (const batch of session.stream(texts, { batchItems: 1, window: 1 })) {
        values.push(...batch.values);
      }
    } catch (cause) {
      failure = cause;
    }
    if (verdict === "trusted") {
      assert.equal(failure, null);
      assert.deepEqual(values, texts.map(Number));
      assert.equal(seen.urls.length, 2);
    } else {
      assert.ok(failure instanceof StreamError);
      assert.equal(failure.code, "POLICY_WITHDRAWN");
      assert.equal(failure.report.code, "PCR_MISMATCH");
      assert.equal(seen.urls.length, 1);
      assert.ok(seen.requests.length < 6, `${seen.requests.length} batches were sent`);
    }
  }
});
