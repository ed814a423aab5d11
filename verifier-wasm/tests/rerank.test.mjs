import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { provePairs } from "../dist/pairs.js";
import { rerank } from "../dist/rerank.js";

const SALT = Buffer.alloc(32, 7);
const RECEIPT = Buffer.from("receipt");
const base64url = (bytes) => Buffer.from(bytes).toString("base64url");
const BUNDLE = JSON.stringify({
  format: "clearseal-audit-bundle/1",
  receipt: base64url(RECEIPT),
  document: "ZG9j",
  manifest: "bWFu",
  salt: base64url(SALT),
});

const sha256 = (...parts) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const uint64 = (value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
};

/** The leaf data of docs/RECEIPTS.md, written a second time. */
function leaf(index, salt, query, { document, score, tokens, truncated }) {
  const length = uint64(Buffer.byteLength(query));
  const input = sha256("clearseal/1 item input\0", salt, Buffer.of(3), length, query, document);
  const float = Buffer.alloc(4);
  float.writeFloatLE(score);
  const read = Buffer.alloc(4);
  read.writeUInt32BE(tokens);
  const vector = sha256("clearseal/1 item vector\0", salt, float);
  return sha256("clearseal/1 item\0", uint64(index), input, vector, read, Buffer.of(truncated ? 1 : 0));
}

/** RFC 9162 §2.1.1, as it is written there. */
function tree(leaves) {
  if (leaves.length === 1) return sha256(Buffer.of(0), leaves[0]);
  let half = 1;
  while (half * 2 < leaves.length) half *= 2;
  return sha256(Buffer.of(1), tree(leaves.slice(0, half)), tree(leaves.slice(half)));
}

/** RFC 9162 §2.1.3.2. */
function rootOf(leafData, index, size, path) {
  let [fn, sn, hash] = [index, size - 1, sha256(Buffer.of(0), leafData)];
  for (const node of path) {
    assert.notEqual(sn, 0);
    if (fn % 2 === 1 || fn === sn) {
      hash = sha256(Buffer.of(1), node, hash);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn >> 1, sn >> 1];
    } else hash = sha256(Buffer.of(1), hash, node);
    [fn, sn] = [fn >> 1, sn >> 1];
  }
  assert.equal(sn, 0);
  return hash;
}

const QUERY = "wie wird der Schlüssel freigegeben?";
const pairOf = (at) => ({
  document: `document ${at}`,
  score: 0.75 - at / 16,
  tokens: 9 + at,
  truncated: at === 1,
});

/** The content of an answer about `pairs`, whose root is over `committed`. */
function content(pairs, committed = pairs, indices = pairs.map((_, at) => at)) {
  const salts = committed.map((_, at) => sha256("clearseal/1 item salt\0", SALT, uint64(at)));
  const leaves = committed.map((pair, at) => leaf(at, salts[at], QUERY, pair));
  const root = sha256("clearseal/1 items\0", uint64(committed.length), tree(leaves));
  const results = pairs.map(({ score, tokens, truncated }, at) => ({
    index: indices[at],
    relevance_score: score,
    clearseal: { tokens, truncated },
  }));
  return Buffer.from(
    `{"clearseal":{"items":"${base64url(root)}"},"model":"m","results":${JSON.stringify(results)}}`,
  );
}

test("every result has a proof that leads to the root of the answer", async () => {
  for (const count of [1, 2, 3, 4, 5, 8, 13]) {
    const pairs = Array.from({ length: count }, (_, at) => pairOf(at));
    const body = content(pairs);
    const { evidence, proofs } = await provePairs(BUNDLE, QUERY, pairs, body);
    const { format, count: stated, content_hash, ...rest } = JSON.parse(evidence);
    assert.deepEqual([format, stated], ["clearseal-vector-evidence/1", count]);
    assert.deepEqual(rest, { receipt: base64url(RECEIPT), document: "ZG9j", manifest: "bWFu" });
    assert.equal(content_hash, base64url(sha256("clearseal/1 response\0", SALT, body)));
    for (const [at, line] of proofs.entries()) {
      const proof = JSON.parse(line);
      assert.equal(proof.evidence, sha256(RECEIPT).toString("hex"));
      const salt = Buffer.from(proof.salt, "base64url");
      const path = proof.path.map((node) => Buffer.from(node, "base64url"));
      const found = rootOf(leaf(at, salt, QUERY, pairs[at]), proof.index, count, path);
      const root = base64url(sha256("clearseal/1 items\0", uint64(count), found));
      assert.ok(body.includes(root), `${at} of ${count}`);
    }
  }
});

test("a pair, score or count that the enclave did not sign is refused", async () => {
  const pairs = [pairOf(0), pairOf(1), pairOf(2)];
  const change = (members) => [pairs[0], { ...pairs[1], ...members }, pairs[2]];
  for (const signed of [
    change({ document: "other" }),
    change({ score: 0.5 }),
    change({ tokens: 1 }),
    change({ truncated: false }),
    [pairs[1], pairs[0], pairs[2]],
    pairs.slice(0, 2),
  ]) {
    const proving = provePairs(BUNDLE, QUERY, pairs, content(pairs, signed));
    await assert.rejects(proving, { name: "SealedFetchError", code: "ITEMS_ROOT_MISMATCH" });
  }
  await assert.rejects(provePairs(BUNDLE, `${QUERY} `, pairs, content(pairs)), {
    code: "ITEMS_ROOT_MISMATCH",
  });
  await assert.rejects(provePairs(BUNDLE, QUERY, pairs, Buffer.from("{}")), { code: "ITEMS_ROOT_MISMATCH" });
});

/** A session whose exchange gives `result`, and the requests that it got. */
function sessionWith(result) {
  const requests = [];
  const session = {
    report: { manifest: { modelId: "ranker" } },
    exchange: async (request) => {
      requests.push(request);
      return result;
    },
  };
  return { session, requests };
}

function answered(status, body) {
  return {
    status: "answered",
    response: { status, headers: [], body: new Uint8Array(body) },
    receipt: status === 200 ? { verdict: "verified", claims: { modelId: "ranker" } } : null,
    bundle: "bundle",
    bundleWithSalt: () => BUNDLE,
    bundleWithContent: () => "bundle with content",
  };
}

test("a ranking has documents, scores, proofs and the receipt", async () => {
  // The results, the best first, are about documents 2 and 0.
  const best = [
    { ...pairOf(0), document: "third" },
    { ...pairOf(1), document: "first" },
  ];
  const { session, requests } = sessionWith(answered(200, content(best, best, [2, 0])));
  const ranking = await rerank(session, QUERY, ["first", "second", "third"], { topN: 2, truncate: false });
  const [{ method, path, body }] = requests;
  assert.deepEqual([method, path], ["POST", "/v1/rerank"]);
  assert.deepEqual(JSON.parse(body), {
    model: "ranker",
    query: QUERY,
    documents: ["first", "second", "third"],
    top_n: 2,
    truncate: false,
  });
  assert.deepEqual(
    ranking.results.map(({ index, document, score }) => [index, document, score]),
    [
      [2, "third", 0.75],
      [0, "first", 0.6875],
    ],
  );
  assert.ok(ranking.results.every(({ proof }) => proof.includes("clearseal-vector-proof/1")));
  assert.deepEqual([ranking.model, ranking.receipt.verdict], ["ranker", "verified"]);
  assert.equal(ranking.bundleWithContent(), "bundle with content");
});

test("a lone surrogate is scored as U+FFFD, as it is in UTF-8", async () => {
  const pair = { ...pairOf(0), document: "a\uFFFD" };
  const { session, requests } = sessionWith(answered(200, content([pair])));
  const ranking = await rerank(session, QUERY, ["a\uD800"], {});
  assert.equal(ranking.results[0].document, "a\uFFFD");
  assert.deepEqual(JSON.parse(requests[0].body).documents, ["a\uFFFD"]);
});

test("an answer that is not a ranking of the documents is refused", async () => {
  const pairs = [pairOf(0), pairOf(1)];
  const texts = pairs.map(({ document }) => document);
  for (const body of [
    content(pairs, pairs, [0, 0]),
    content(pairs, pairs, [0, 2]),
    content(pairs, pairs, [0, 0.5]),
    content(pairs.slice(1)),
    Buffer.from("no JSON"),
  ]) {
    const { session } = sessionWith(answered(200, body));
    await assert.rejects(rerank(session, QUERY, texts, {}), { code: "ANSWER_INVALID" });
  }
});

test("refusals keep their codes", async () => {
  const error = { error: { code: "MODEL_TASK", message: "it embeds texts" } };
  const problem = { code: "NETWORK", title: "t", detail: "d", remedy: "r" };
  for (const [result, code] of [
    [answered(400, Buffer.from(JSON.stringify(error))), "MODEL_TASK"],
    [answered(503, Buffer.from("busy")), "HTTP_503"],
    [{ status: "refused", code: "MODEL_HASH_MISMATCH", message: "m", remedy: "r" }, "MODEL_HASH_MISMATCH"],
    [{ status: "unreachable", problem }, "NETWORK"],
  ]) {
    const { session } = sessionWith(result);
    await assert.rejects(rerank(session, QUERY, ["a"], {}), { name: "SealedFetchError", code });
  }
});
