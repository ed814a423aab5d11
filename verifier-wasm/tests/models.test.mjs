import assert from "node:assert/strict";
import { test } from "node:test";
import { connectWith } from "../dist/client.js";
import { demandModel, isSameModel, modelsOf } from "../dist/models.js";
import { fakeFetch, fakeVerifier, ORIGIN } from "./fakes.mjs";

/** Deterministic CBOR of maps, lists, text, bytes, numbers below 2^32 and booleans. */
function cbor(value) {
  const head = (major, argument) => {
    if (argument < 24) return [(major << 5) | argument];
    if (argument < 256) return [(major << 5) | 24, argument];
    if (argument < 65_536) return [(major << 5) | 25, argument >> 8, argument & 255];
    return [(major << 5) | 26, ...new Uint8Array(new Uint32Array([argument]).buffer).reverse()];
  };
  if (typeof value === "number") return head(0, value);
  if (typeof value === "boolean") return [value ? 0xf5 : 0xf4];
  if (typeof value === "string") return [...head(3, value.length), ...new TextEncoder().encode(value)];
  if (value instanceof Uint8Array) return [...head(2, value.length), ...value];
  if (Array.isArray(value)) return [...head(4, value.length), ...value.flatMap(cbor)];
  return [...head(5, value.size), ...[...value].flatMap(([key, entry]) => [...cbor(key), ...cbor(entry)])];
}

const DIGEST = { minilm: "11".repeat(32), ranker: "22".repeat(32) };
const digest = (hex) => Uint8Array.from(hex.match(/../g), (byte) => Number.parseInt(byte, 16));

function model(id, sha256, dimension, ...more) {
  return new Map([
    [1, id],
    [2, "fused-f32"],
    [3, digest(sha256)],
    [4, "sha256-manifest"],
    [5, dimension],
    [6, 512],
    ...more,
  ]);
}

/** Evidence of an enclave with the models `org/minilm` and `ranker`. */
const evidence = Uint8Array.from(
  cbor(
    new Map([
      [1, new Uint8Array(300)],
      [
        2,
        Uint8Array.from(
          cbor(
            new Map([
              [1, 1],
              [2, new Uint8Array(70)],
              [3, new Uint8Array(32)],
              [4, model("org/minilm", DIGEST.minilm, 384)],
              [5, "2026-11"],
              [6, "production"],
              [7, 1_800_000_000],
              [8, 1_800_086_400],
              [9, [model("ranker", DIGEST.ranker, 1, [7, false])]],
            ]),
          ),
        ),
      ],
    ]),
  ),
);

const MODELS = [
  {
    id: "org/minilm",
    version: "fused-f32",
    sha256: DIGEST.minilm,
    dimension: 384,
    maxTokens: 512,
    normalised: true,
  },
  {
    id: "ranker",
    version: "fused-f32",
    sha256: DIGEST.ranker,
    dimension: 1,
    maxTokens: 512,
    normalised: false,
  },
];
const POLICY = JSON.stringify({ name: "mine", model: { id: "minilm", sha256: DIGEST.minilm } });
const MANIFEST = { modelId: "org/minilm", modelSha256: DIGEST.minilm };

async function open(options, more = {}) {
  const { verifier, seen } = fakeVerifier({ manifest: MANIFEST, ...options });
  const attestation = () => new Response(evidence);
  const network = fakeFetch({ "/v1/attestation": attestation, ...more.routes });
  const connection = await connectWith(verifier, ORIGIN, {
    fetch: network.fetch,
    policy: POLICY,
    ...more.options,
  });
  return { session: connection.session, seen, network };
}

test("the models of the verified manifest are listed, the policy's first", async () => {
  assert.deepEqual(modelsOf(evidence), MODELS);
  const { session } = await open({});
  assert.deepEqual(session.models, MODELS);
  const second = await open({ manifest: { modelId: "ranker", modelSha256: DIGEST.ranker } });
  assert.deepEqual(second.session.models, MODELS.toReversed());
});

test("bytes that are not evidence are refused", () => {
  for (let length = 0; length < evidence.length; length += 1) {
    assert.throws(() => modelsOf(evidence.subarray(0, length)), RangeError, `${length}`);
  }
  assert.throws(() => modelsOf(Uint8Array.of(0xbb, 255, 255, 255, 255, 255, 255, 255, 255)), RangeError);
});

test("two forms of a name are one model, two organisations are two", () => {
  assert.ok(isSameModel("org/minilm", "minilm") && isSameModel("minilm", "org/minilm"));
  assert.ok(!isSameModel("a/minilm", "b/minilm") && !isSameModel("xminilm", "minilm"));
});

test("only the model of a policy is replaced, and none is added", () => {
  const demanded = JSON.parse(demandModel(`\uFEFF${POLICY}`, MODELS[1]));
  assert.deepEqual(demanded, { name: "mine", model: { id: "ranker", sha256: DIGEST.ranker } });
  for (const other of ['{"name":"mine"}', "not JSON", "null", "[]"]) {
    assert.equal(demandModel(other, MODELS[1]), other);
  }
});

test("a session with another model is verified under a policy that demands it", async () => {
  const judged = [];
  const { session, seen } = await open({ judgement: (policy) => judged.push(policy) && {} });
  assert.equal(await session.withModel("minilm"), session);
  const [ranker, same] = await Promise.all([session.withModel("ranker"), session.withModel("any/ranker")]);
  assert.equal(ranker, same);
  assert.equal(seen.judged.length, 2);
  assert.deepEqual(JSON.parse(seen.judged[1].policy).model, { id: "ranker", sha256: DIGEST.ranker });
  // The caller's own policy accepts the same evidence.
  assert.deepEqual(judged, [POLICY]);
  assert.equal(ranker.evidence.policy, seen.judged[1].policy);
  session.close();
  assert.deepEqual(seen.freed.toSorted(), [1, 2]);
  await assert.rejects(session.withModel("ranker"), { code: "SESSION_CLOSED" });
});

test("an enclave that the caller's own policy refuses is not used with another model", async () => {
  const judgement = () => ({ verdict: "refused", code: "MODEL_MISMATCH", message: "No.", remedy: "Stop." });
  const { session, seen } = await open({ judgement });
  await assert.rejects(session.withModel("ranker"), { name: "SealedFetchError", code: "MODEL_MISMATCH" });
  assert.deepEqual(seen.freed, [2]);
  const refused = await open({ verdicts: ["trusted", "MODEL_MISMATCH"] });
  await assert.rejects(refused.session.withModel("ranker"), { code: "MODEL_MISMATCH" });
});

test("a name that the manifest does not state is refused before anything is sent", async () => {
  const { session, network } = await open({});
  const before = network.calls.length;
  await assert.rejects(session.withModel("other"), { code: "MODEL_NOT_SERVED" });
  assert.equal(network.calls.length, before);
});

test("the policy that a simulated service offers stays one that came with the evidence", async () => {
  const offered = () => new Response(POLICY);
  const more = { routes: { "/v1/development-policy": offered } };
  const { session, seen } = await open(
    { verdicts: ["simulated"] },
    { ...more, options: { policy: undefined, allowSimulated: true } },
  );
  await session.withModel("ranker");
  const { policy, serverPolicy } = seen.judged[1];
  assert.equal(policy, null);
  assert.equal(JSON.parse(serverPolicy).model.id, "ranker");
});

test("a policy change reaches sessions with other models at once", async () => {
  const { session, seen } = await open({ verdicts: ["trusted", "trusted", "PCR_MISMATCH"] });
  const ranker = await session.withModel("ranker");
  session.setPolicy(JSON.stringify({ ...JSON.parse(POLICY), name: "next" }));
  assert.equal(ranker.validUntilMs, Number.NEGATIVE_INFINITY);
  const result = await ranker.exchange({ method: "GET", path: "/v1/models" });
  assert.equal(result.code, "POLICY_WITHDRAWN");
  assert.deepEqual(JSON.parse(seen.judged[2].policy), {
    name: "next",
    model: { id: "ranker", sha256: DIGEST.ranker },
  });
});

test("a check that a policy change overtakes is made again under the new policy", async () => {
  const { session, seen } = await open({});
  const opening = session.withModel("ranker");
  session.setPolicy(JSON.stringify({ ...JSON.parse(POLICY), name: "next" }));
  await opening;
  assert.equal(JSON.parse(seen.judged.at(-1).policy).name, "next");
});
