import assert from "node:assert/strict";
import { test } from "node:test";
import { connectWith } from "../dist/client.js";
import { SealedFetchError } from "../dist/types.js";
import {
  answer,
  evidence,
  fakeFetch,
  fakeVerifier,
  hang,
  KEY_PROBLEM,
  ORIGIN,
  problem,
  unknownKey,
} from "./fakes.mjs";

const MESSAGE = {
  method: "post",
  path: "/v1/embeddings",
  headers: { "Content-Type": "application/json" },
  body: "{}",
};

async function session({ verifier, seen }, routes, options = {}) {
  const network = fakeFetch({ "/v1/attestation": evidence, ...routes });
  const connection = await connectWith(verifier, ORIGIN, {
    fetch: network.fetch,
    policy: "mine",
    ...options,
  });
  assert.equal(connection.status, "trusted");
  return { session: connection.session, connection, network, seen };
}

test("a check sends the nonce and nothing else", async () => {
  const { network, connection, seen } = await session(fakeVerifier(), {});
  assert.deepEqual(
    network.calls.map((call) => call.url),
    [`${ORIGIN}/v1/attestation?nonce=nonce-1&shared=1`, `${ORIGIN}/v1/crls`],
  );
  for (const { init } of network.calls) {
    assert.equal(init.credentials, "omit");
    assert.equal(init.redirect, "manual");
    assert.equal(init.body, undefined);
  }
  assert.deepEqual(seen.judged[0].evidence, new Uint8Array([0xa2, 1, 2]));
  assert.equal(connection.evidence.nonce, "hex-1");
  assert.equal(connection.evidence.policy, "mine");
});

test("revocation lists that the host serves are checked and kept with the evidence", async () => {
  const { connection, seen } = await session(fakeVerifier(), { "/v1/crls": answer("lists") });
  const lists = new TextEncoder().encode("lists");
  assert.deepEqual(seen.crls, [lists]);
  assert.deepEqual(connection.evidence.crls, lists);
  for (const none of [undefined, new TypeError("gone"), () => problem(404, { code: "NOT_FOUND" })]) {
    const { connection, seen } = await session(fakeVerifier(), { "/v1/crls": none });
    assert.deepEqual(seen.crls, [new Uint8Array(0)]);
    assert.equal(connection.evidence.crls.length, 0);
  }
});

test("lists that come late do not move the moment that the evidence is judged at", async () => {
  let time = 1000;
  const after = (milliseconds) => async () => {
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    time += 60_000;
    return new Response("lists");
  };
  const lists = new TextEncoder().encode("lists");
  const { seen } = await session(fakeVerifier(), { "/v1/crls": after(50) }, { now: () => time });
  assert.equal(seen.judged[0].nowMs, 1000);
  assert.deepEqual(seen.crls, [lists]);

  // Never: the policy can do without.
  const never = await session(fakeVerifier(), { "/v1/crls": hang }, { now: () => 1000 });
  assert.deepEqual(never.seen.crls, [new Uint8Array(0)]);

  const policy = JSON.stringify({ revocation: "required" });
  const required = await session(fakeVerifier(), { "/v1/crls": after(2500) }, { policy });
  assert.deepEqual(required.seen.crls, [lists]);
});

test("a verifier that never answers gives no verdict, and nothing is sent", async () => {
  const network = fakeFetch({ "/v1/attestation": evidence });
  const { verifier } = fakeVerifier();
  const silent = {
    ...verifier,
    challenge: () => ({ ...verifier.challenge(), verify: () => new Promise(() => {}) }),
  };
  const connection = await connectWith(silent, ORIGIN, {
    fetch: network.fetch,
    policy: "mine",
    timeoutMs: 50,
  });
  assert.equal(connection.status, "unreachable");
  assert.equal(connection.problem.code, "VERIFIER_SILENT");
  assert.equal(network.calls.length, 2);
});

test("an address with a path keeps it", async () => {
  const network = fakeFetch({ "/under/v1/attestation": evidence });
  const { verifier } = fakeVerifier();
  const connection = await connectWith(verifier, `${ORIGIN}/under?x=1#y`, {
    fetch: network.fetch,
    policy: "mine",
  });
  assert.equal(connection.status, "trusted");
});

test("the service is asked for a policy only if simulation is allowed and there is no other policy", async () => {
  const routes = () => ({ "/v1/attestation": evidence, "/v1/development-policy": answer("theirs") });
  const ask = async (fake, options) => {
    const network = fakeFetch(routes());
    const { evidence } = await connectWith(fake.verifier, ORIGIN, { fetch: network.fetch, ...options });
    const { policy, serverPolicy, allowed } = fake.seen.judged[0];
    return {
      asked: network.to("/v1/development-policy").length,
      judgedBy: [policy, serverPolicy ?? null],
      allowed,
      shown: evidence.policy,
    };
  };
  const allowSimulated = true;
  const refused = { asked: 0, judgedBy: [null, null], allowed: false, shown: null };
  assert.deepEqual(await ask(fakeVerifier(), {}), refused);
  // Only `true` allows simulation.
  for (const other of [undefined, null, false, 1, "true", "false", {}]) {
    assert.deepEqual(await ask(fakeVerifier(), { allowSimulated: other }), refused);
  }
  assert.deepEqual(await ask(fakeVerifier(), { allowSimulated }), {
    asked: 1,
    judgedBy: [null, "theirs"],
    allowed: true,
    shown: "theirs",
  });
  assert.deepEqual(await ask(fakeVerifier(), { policy: "mine", allowSimulated }), {
    asked: 0,
    judgedBy: ["mine", null],
    allowed: true,
    shown: "mine",
  });
  assert.deepEqual(await ask(fakeVerifier({ embedded: "built in" }), { allowSimulated }), {
    asked: 0,
    judgedBy: [null, null],
    allowed: true,
    shown: "built in",
  });
});

test("a simulated enclave is refused, and nothing is sent to it, unless `allowSimulated` is set", async () => {
  const routes = () => ({ "/v1/attestation": evidence, "/v1/gateway": answer() });
  const verdicts = ["simulated"];
  const closed = fakeFetch(routes());
  const refused = await connectWith(fakeVerifier({ verdicts }).verifier, ORIGIN, {
    fetch: closed.fetch,
    policy: "mine",
  });
  assert.equal(refused.status, "refused");
  assert.equal("session" in refused, false);
  assert.equal(closed.to("/v1/gateway").length, 0);

  const open = fakeFetch(routes());
  const simulated = await connectWith(fakeVerifier({ verdicts }).verifier, ORIGIN, {
    fetch: open.fetch,
    policy: "mine",
    allowSimulated: true,
  });
  // Not `trusted`, so that a caller that only checks for that sends nothing.
  assert.equal(simulated.status, "simulated");
  assert.equal((await simulated.session.exchange({ method: "GET", path: "/" })).status, "answered");
});

test("swapped evidence is refused, and there is no session to send with", async () => {
  const { verifier } = fakeVerifier({ verdicts: ["NONCE_MISMATCH"] });
  const network = fakeFetch({ "/v1/attestation": evidence });
  const connection = await connectWith(verifier, ORIGIN, { fetch: network.fetch, policy: "mine" });
  assert.equal(connection.status, "refused");
  assert.equal(connection.report.code, "NONCE_MISMATCH");
  assert.deepEqual(connection.evidence.bytes, new Uint8Array([0xa2, 1, 2]));
  assert.equal("session" in connection, false);
  assert.equal(network.to("/v1/gateway").length, 0);
});

test("a host that does not answer gives no verdict", async () => {
  const { verifier, seen } = fakeVerifier();
  const reach = async (route) => {
    const network = fakeFetch({ "/v1/attestation": route });
    const connection = await connectWith(verifier, ORIGIN, {
      fetch: network.fetch,
      policy: "mine",
      timeoutMs: 50,
    });
    assert.equal(connection.status, "unreachable");
    return connection.problem.code;
  };
  assert.equal(await reach(new TypeError("refused")), "NETWORK");
  assert.equal(await reach(() => new Response("<h1>busy</h1>", { status: 503 })), "HOST_REFUSED");
  assert.equal(await reach(() => problem(503, { code: "ENCLAVE_DOWN" })), "ENCLAVE_DOWN");
  assert.equal(await reach(() => problem(503, { code: "<script>" })), "HOST_REFUSED");
  assert.equal(await reach(() => problem(503, null)), "HOST_REFUSED");
  assert.equal(await reach(unknownKey), "HOST_REFUSED");
  assert.equal(await reach(() => new Response(new Uint8Array(40_000), { status: 200 })), "ANSWER_TOO_LARGE");
  assert.equal(await reach(hang), "TIMEOUT");
  // Slow and stalled bodies, even if the platform ignores the signal.
  const drip = (status, type) => () => {
    let timer;
    const body = new ReadableStream({
      start: (controller) => {
        timer = setInterval(() => controller.enqueue(new Uint8Array(1)), 5);
      },
      cancel: () => clearInterval(timer),
    });
    return new Response(body, { status, headers: { "content-type": type } });
  };
  assert.equal(await reach(drip(200, "application/cbor")), "TIMEOUT");
  assert.equal(await reach(drip(503, "application/problem+json")), "TIMEOUT");
  // No connection keeps the process alive here.
  const alive = setInterval(() => undefined, 1000);
  assert.equal(await reach(() => new Response(new ReadableStream({}))), "TIMEOUT");
  clearInterval(alive);
  assert.equal(seen.judged.length, 0);
});

test("a redirect is not followed, in either form that runtimes report it", async () => {
  const { verifier, seen } = fakeVerifier();
  // Browsers hide the answer; Node, Deno, Bun and workerd return it.
  const opaque = { type: "opaqueredirect", status: 0, headers: new Headers(), body: null };
  const redirects = [() => opaque, ...[301, 302, 303, 307, 308].map((status) => () => redirect(status))];
  for (const moved of redirects) {
    const network = fakeFetch({ "/v1/attestation": moved, "/elsewhere": evidence });
    const connection = await connectWith(verifier, ORIGIN, { fetch: network.fetch, policy: "mine" });
    assert.equal(connection.status, "unreachable");
    assert.equal(connection.problem.code, "HOST_REFUSED");
    assert.match(connection.problem.detail, /redirect/);
    assert.equal(network.to("/elsewhere").length, 0);
  }
  assert.equal(seen.judged.length, 0);

  const { session: open, network } = await session(fakeVerifier(), { "/v1/gateway": () => redirect(307) });
  const { status, problem } = await open.exchange(MESSAGE);
  assert.deepEqual([status, problem.code], ["unreachable", "HOST_REFUSED"]);
  assert.deepEqual(
    network.calls.filter(({ url }) => url.includes("elsewhere")),
    [],
  );
});

const redirect = (status) => new Response(null, { status, headers: { location: "/elsewhere" } });

test("a feature that the runtime lacks is not reported as a network fault", async () => {
  const { verifier } = fakeVerifier();
  const reach = async (options) => {
    const connection = await connectWith(verifier, ORIGIN, { policy: "mine", ...options });
    assert.equal(connection.status, "unreachable");
    return connection.problem;
  };
  const lacks = (problem, name) => {
    assert.equal(problem.code, "RUNTIME_LACKS");
    assert.match(problem.detail, name);
  };
  await without("fetch", async () => lacks(await reach({}), /fetch is not defined/));
  // Refused before anything is sent.
  const refusing = async () => {
    throw new TypeError("Invalid redirect value");
  };
  class RefusingRequest {
    constructor(_, { redirect }) {
      if (redirect) throw new TypeError("Invalid redirect value");
    }
  }
  await replaced("Request", RefusingRequest, async () =>
    lacks(await reach({ fetch: refusing }), /Invalid redirect value/),
  );
  assert.equal((await reach({ fetch: refusing })).code, "NETWORK");
});

test("options that a runtime refuses are left out, except the one against redirects", async () => {
  // workerd with a compatibility date before November 2024.
  class PickyRequest {
    constructor(_, { cache }) {
      if (cache) throw new Error("The 'cache' field on 'RequestInitializerDict' is not implemented.");
    }
  }
  const network = fakeFetch({ "/v1/attestation": evidence });
  const { verifier } = fakeVerifier();
  await replaced("Request", PickyRequest, async () => {
    const connection = await connectWith(verifier, ORIGIN, { fetch: network.fetch, policy: "mine" });
    assert.equal(connection.status, "trusted");
  });
  for (const { init } of network.calls) {
    assert.equal("cache" in init, false);
    assert.equal(init.credentials, "omit");
    assert.equal(init.redirect, "manual");
  }
});

test("a runtime without AbortSignal.any and AbortSignal.timeout connects, cancels and gives up in time", async () => {
  await replaced("AbortSignal", {}, async () => {
    const { session: open } = await session(fakeVerifier(), { "/v1/gateway": hang }, { timeoutMs: 50 });
    assert.equal((await open.exchange(MESSAGE)).problem.code, "TIMEOUT");
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 5);
    const cancelled = await open.exchange(MESSAGE, { signal: controller.signal });
    assert.equal(cancelled.problem.code, "ABORTED");
  });
});

const hidden = (value) => ({ value, configurable: true, writable: true });

/** Runs `work` with a global replaced, or removed if `value` is undefined. */
async function replaced(name, value, work) {
  const before = Object.getOwnPropertyDescriptor(globalThis, name);
  delete globalThis[name];
  if (value !== undefined) Object.defineProperty(globalThis, name, hidden(value));
  try {
    await work();
  } finally {
    Object.defineProperty(globalThis, name, before);
  }
}

const without = (name, work) => replaced(name, undefined, work);

test("a sealed exchange carries message and hint, and brings the answer with its receipt", async () => {
  const {
    session: open,
    network,
    seen,
  } = await session(fakeVerifier(), { "/v1/gateway": answer("content") });
  const result = await open.exchange(MESSAGE);
  assert.equal(result.status, "answered");
  assert.equal(result.response.status, 200);
  assert.equal(new TextDecoder().decode(result.response.body), "content");
  assert.equal(result.receipt.verdict, "verified");
  assert.equal(result.bundle, "bundle");
  assert.equal(result.bundleWithContent(), "bundle with content");
  assert.equal(result.bundleWithSalt(), "bundle with salt");
  const [sent] = network.to("/v1/gateway");
  assert.equal(sent.init.headers["content-type"], "message/ohttp-req");
  assert.equal(sent.init.headers["clearseal-enclave"], "hint-1");
  assert.equal(new TextDecoder().decode(sent.init.body), "sealed by 1");
  assert.deepEqual(seen.sealed[0].headers, ["content-type", "application/json"]);
  assert.equal(seen.sealed[0].method, "POST");
});

const turn = () => new Promise((resolve) => setTimeout(resolve, 5));

test("a key is encapsulated after connecting and while each answer is awaited, not after closing", async () => {
  let prepared;
  const routes = {
    "/v1/gateway": async () => {
      await turn();
      prepared = seen.prepared.length;
      return answer("content")();
    },
  };
  const { session: open, seen } = await session(fakeVerifier(), routes);
  assert.deepEqual(seen.prepared, []);
  await turn();
  assert.deepEqual(seen.prepared, [1]);
  assert.equal((await open.exchange(MESSAGE)).status, "answered");
  assert.equal(prepared, 2);

  const second = await session(fakeVerifier(), {});
  second.session.close();
  await turn();
  assert.deepEqual(second.seen.prepared, []);
});

test("after a fresh check a key is encapsulated to the new enclave", async () => {
  const routes = { "/v1/gateway": [unknownKey(), answer("content")()] };
  const { session: open, seen } = await session(fakeVerifier(), routes);
  assert.equal((await open.exchange(MESSAGE)).status, "answered");
  await turn();
  assert.equal(seen.prepared.at(-1), 2);
});

test("an unknown key leads to one new check and one more attempt", async () => {
  const {
    session: open,
    network,
    seen,
    connection,
  } = await session(fakeVerifier(), {
    "/v1/gateway": [unknownKey(), answer()()],
  });
  const before = open.report;
  assert.equal(before, connection.report);
  assert.equal((await open.exchange(MESSAGE)).status, "answered");
  assert.equal(network.to("/v1/attestation").length, 2);
  assert.deepEqual(
    seen.sealed.map((request) => request.number),
    [1, 2],
    "sealed again, to the new key",
  );
  assert.deepEqual(seen.freed, [1]);
  assert.notEqual(open.report, before);
  assert.equal(open.report, open.report);
  assert.equal(open.evidence.nonce, "hex-2");
  assert.equal(open.validUntilMs, 8.64e15 - 2);
});

test("an enclave that does not know the document leads to one new check too", async () => {
  const declined = { status: "refused", code: "DOCUMENT_UNKNOWN", message: "m", remedy: "r", receipt: null };
  const fake = fakeVerifier({ outcomes: [declined] });
  const { session: open, network } = await session(fake, { "/v1/gateway": answer() });
  assert.equal((await open.exchange(MESSAGE)).status, "answered");
  assert.equal(network.to("/v1/attestation").length, 2);
});

test("an expired proof is renewed before anything is sealed, once for all waiting exchanges", async () => {
  let now = 500;
  const fake = fakeVerifier({ lives: [1000, 5000] });
  const {
    session: open,
    network,
    seen,
  } = await session(fake, { "/v1/gateway": answer() }, { now: () => now });
  assert.equal((await open.exchange(MESSAGE)).status, "answered");
  now = 1001;
  const results = await Promise.all([open.exchange(MESSAGE), open.exchange(MESSAGE)]);
  assert.deepEqual(
    results.map((result) => result.status),
    ["answered", "answered"],
  );
  assert.equal(network.to("/v1/attestation").length, 2);
  assert.deepEqual(
    seen.sealed.map((request) => request.number),
    [1, 2, 2],
    "nothing was sealed under the old proof",
  );
  assert.equal(open.validUntilMs, 5000);
});

test("a new proof that has already expired seals nothing and is not renewed again", async () => {
  const { session: open, network } = await session(
    fakeVerifier({ lives: [1000, 1000] }),
    {},
    { now: () => 2000 },
  );
  const result = await open.exchange(MESSAGE);
  assert.equal(result.problem.code, "EXPIRED_TWICE");
  assert.equal(network.to("/v1/attestation").length, 2);
  assert.equal(network.to("/v1/gateway").length, 0);
});

test("a second unknown key is not retried", async () => {
  const { session: open, network } = await session(fakeVerifier(), { "/v1/gateway": unknownKey });
  const result = await open.exchange(MESSAGE);
  assert.equal(result.status, "unreachable");
  assert.equal(result.problem.code, "KEY_UNKNOWN_TWICE");
  assert.equal(network.to("/v1/attestation").length, 2);
  assert.equal(network.to("/v1/gateway").length, 2);
});

test("many exchanges that meet an unknown key together share one check", async () => {
  let answers = 0;
  const gateway = () => {
    answers += 1;
    return answers <= 5 ? unknownKey() : answer()();
  };
  const { session: open, network } = await session(fakeVerifier(), { "/v1/gateway": gateway });
  const results = await Promise.all(Array.from({ length: 5 }, () => open.exchange(MESSAGE)));
  assert.deepEqual(
    results.map((result) => result.status),
    Array(5).fill("answered"),
  );
  assert.equal(network.to("/v1/attestation").length, 2);
});

test("a refusal in a new check closes the session, and nothing more is sent", async () => {
  const fake = fakeVerifier({ verdicts: ["trusted", "PCR_MISMATCH"] });
  const { session: open, network, seen } = await session(fake, { "/v1/gateway": unknownKey });
  const result = await open.exchange(MESSAGE);
  assert.equal(result.status, "refused");
  assert.equal(result.code, "PCR_MISMATCH");
  assert.equal(result.report.verdict, "refused");
  assert.equal(open.report, result.report);
  assert.deepEqual(seen.freed, [1]);
  assert.equal(network.to("/v1/gateway").length, 1);
  const again = await open.exchange(MESSAGE);
  assert.equal(again.problem.code, "SESSION_CLOSED");
  assert.equal(network.to("/v1/gateway").length, 1);
});

test("a missing or rewritten answer leads to one new check and one more attempt", async () => {
  const html = { headers: { "content-type": "text/html" } };
  const answers = [
    () => problem(400, { type: "about:blank", code: "KEY_UNKNOWN" }),
    () => new Response(JSON.stringify({ type: KEY_PROBLEM }), { status: 400 }),
    () => new Response("{", { status: 400, headers: { "content-type": "application/problem+json" } }),
    () => new Response("<h1>Unprocessable</h1>", { status: 422, ...html }),
    () => new Response("<h1>Service unavailable</h1>", { status: 503, ...html }),
    () => problem(502, { type: "about:blank", code: "ENCLAVE_UNREACHABLE" }),
    () => problem(500, { type: 7 }),
    new TypeError("cut off"),
  ];
  for (const first of answers) {
    const routes = { "/v1/gateway": [first, answer(), answer()] };
    const { session: open, network } = await session(fakeVerifier(), routes);
    assert.equal((await open.exchange(MESSAGE)).status, "answered");
    assert.equal(network.to("/v1/attestation").length, 2);
    // The new proof is kept.
    assert.equal((await open.exchange(MESSAGE)).status, "answered");
    assert.equal(network.to("/v1/attestation").length, 2);

    const always = await session(fakeVerifier(), { "/v1/gateway": first });
    assert.equal((await always.session.exchange(MESSAGE)).status, "unreachable");
    assert.equal(always.network.to("/v1/attestation").length, 2);
    assert.equal(always.network.to("/v1/gateway").length, 2, "no loop");
  }
});

test("a host that is busy or refuses the size is not asked again", async () => {
  for (const denied of [
    () => problem(503, { type: "about:blank", code: "BUSY" }),
    () => problem(503, { type: "about:blank", code: "GATEWAY_BUSY" }),
    () => problem(503, { type: "about:blank", code: "MEMORY_BUSY" }),
    () => problem(429, { type: "about:blank", code: "SOURCE_BUSY" }),
    () => problem(413, { type: "about:blank", code: "BODY_TOO_LARGE" }),
  ]) {
    const { session: open, network } = await session(fakeVerifier(), { "/v1/gateway": denied });
    assert.match((await open.exchange(MESSAGE)).problem.code, /BUSY|BODY_TOO_LARGE/);
    assert.equal(network.to("/v1/attestation").length, 1);
    assert.equal(network.to("/v1/gateway").length, 1);
  }
});

test("an unanswered new check keeps the current proof", async () => {
  const routes = {
    "/v1/attestation": [evidence(), new TypeError("gone")],
    "/v1/gateway": [new TypeError("gone"), answer()],
  };
  const { session: open } = await session(fakeVerifier(), routes);
  assert.equal((await open.exchange(MESSAGE)).problem.code, "NETWORK");
  assert.equal((await open.exchange(MESSAGE)).status, "answered");
});

test("a refused answer is requested once more, under a new proof", async () => {
  const outcome = {
    status: "refused",
    code: "SIG_FAILED",
    message: "m",
    remedy: "r",
    receipt: { verdict: "refused" },
  };
  const once = await session(fakeVerifier({ outcomes: [outcome] }), { "/v1/gateway": answer() });
  assert.equal((await once.session.exchange(MESSAGE)).status, "answered");
  assert.equal(once.network.to("/v1/attestation").length, 2);
  const twice = await session(fakeVerifier({ outcomes: [outcome, outcome] }), { "/v1/gateway": answer() });
  assert.deepEqual(await twice.session.exchange(MESSAGE), { ...outcome, report: null });
  assert.equal(twice.network.to("/v1/gateway").length, 2);
});

test("a request that cannot be sealed is never sent", async () => {
  const { session: open, network } = await session(fakeVerifier(), { "/v1/gateway": answer() });
  const result = await open.exchange({ method: "POST", path: "/unsealable" });
  assert.equal(result.code, "INNER_BAD_FIELD");
  assert.equal(network.to("/v1/gateway").length, 0);
});

test("aborting is a result of exchange and connect, and rejects fetch", async () => {
  const { session: open, network } = await session(fakeVerifier(), { "/v1/gateway": hang });
  const controller = new AbortController();
  const running = open.exchange(MESSAGE, { signal: controller.signal });
  controller.abort();
  assert.equal((await running).problem.code, "ABORTED");
  const sentBefore = network.to("/v1/gateway").length;
  assert.equal((await open.exchange(MESSAGE, { signal: AbortSignal.abort() })).problem.code, "ABORTED");
  assert.equal(network.to("/v1/gateway").length, sentBefore, "aborted before it began: nothing is sent");
  await assert.rejects(open.fetch("/v1/models", { signal: AbortSignal.abort() }), { name: "AbortError" });

  const { verifier } = fakeVerifier();
  const never = fakeFetch({ "/v1/attestation": hang });
  const connection = await connectWith(verifier, ORIGIN, {
    fetch: never.fetch,
    policy: "p",
    signal: AbortSignal.abort(),
  });
  assert.equal(connection.problem.code, "ABORTED");
});

test("an aborted exchange does not wait for the new check, which continues for the others", async () => {
  let answerCheck;
  const routes = {
    "/v1/attestation": [
      evidence(),
      () =>
        new Promise((resolve) => {
          answerCheck = () => resolve(evidence());
        }),
    ],
    "/v1/gateway": [unknownKey(), unknownKey(), answer()],
  };
  const { session: open, network } = await session(fakeVerifier(), routes);
  const controller = new AbortController();
  const rejected = assert.rejects(open.fetch("/v1/models", { signal: controller.signal }), {
    name: "AbortError",
  });
  const other = open.exchange(MESSAGE);
  await turn();
  assert.equal(network.to("/v1/attestation").length, 2, "both wait for the same check");
  controller.abort();
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("it still waits")), 2_000);
  });
  await Promise.race([rejected, late]).finally(() => clearTimeout(timer));
  answerCheck();
  assert.equal((await other).status, "answered");
  assert.equal(network.to("/v1/attestation").length, 2);
  assert.equal(network.to("/v1/gateway").length, 3);
});

test("the sealed fetch is a fetch", async () => {
  const { session: open, seen } = await session(fakeVerifier(), { "/v1/gateway": answer('{"data":[]}') });
  const response = await open.fetch(
    new Request(`${ORIGIN}/v1/embeddings?a=1`, { method: "POST", body: "text" }),
  );
  assert.deepEqual(await response.json(), { data: [] });
  assert.equal(response.headers.get("content-type"), "application/json");
  const [request] = seen.sealed;
  assert.equal(request.path, "/v1/embeddings?a=1");
  assert.equal(new TextDecoder().decode(request.content), "text");
  assert.equal(request.headers.includes("host"), false);
});

test("the sealed fetch carries answers without a body", async () => {
  const outcome = { status: "answered", httpStatus: 204, headers: [], receipt: {} };
  const { session: open } = await session(fakeVerifier({ outcomes: [outcome] }), {
    "/v1/gateway": answer(""),
  });
  assert.equal((await open.fetch("/v1/models")).status, 204);
});

test("the sealed fetch sends nothing to other origins", async () => {
  const { session: open, network } = await session(fakeVerifier(), { "/v1/gateway": answer() });
  await assert.rejects(open.fetch("https://other.example/v1/models"), { code: "OTHER_ORIGIN" });
  assert.equal(network.to("/v1/gateway").length, 0);
});

test("the sealed fetch rejects with a code if there is no answer", async () => {
  const { session: open } = await session(fakeVerifier(), { "/v1/gateway": new TypeError("gone") });
  await assert.rejects(
    open.fetch("/v1/models"),
    (error) => error instanceof SealedFetchError && error.code === "NETWORK",
  );
});

test("a closed session sends nothing, and closing twice is harmless", async () => {
  const { session: open, network, seen } = await session(fakeVerifier(), { "/v1/gateway": answer() });
  open.close();
  open.close();
  assert.deepEqual(seen.freed, [1]);
  assert.equal((await open.exchange(MESSAGE)).problem.code, "SESSION_CLOSED");
  assert.equal(network.to("/v1/gateway").length, 0);
});

test("a session that was closed during a new check stays closed", async () => {
  let release;
  const slow = new Promise((resolve) => {
    release = () => resolve(evidence());
  });
  const network = fakeFetch({ "/v1/attestation": [evidence(), () => slow], "/v1/gateway": unknownKey });
  const { verifier, seen } = fakeVerifier();
  const { session: open } = await connectWith(verifier, ORIGIN, { fetch: network.fetch, policy: "mine" });
  const running = open.exchange(MESSAGE);
  await new Promise((resolve) => setImmediate(resolve));
  open.close();
  release();
  assert.equal((await running).problem.code, "SESSION_CLOSED");
  assert.deepEqual(seen.freed.sort(), [1, 2]);
});

test("a session's fetch works when it is passed along by itself", async () => {
  const { session: open } = await session(fakeVerifier(), { "/v1/gateway": answer() });
  const { fetch } = open;
  const response = await fetch(`${ORIGIN}/v1/models`);
  assert.equal(response.status, 200);
});
