import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { test } from "node:test";
import { Ledger, readHead, rootOf, total } from "./ledger.mjs";
import { judgeWork, thirds } from "./verdict.mjs";

const hash = (...parts) => parts.reduce((sum, part) => sum.update(part), createHash("sha256")).digest();
const leaf = (data) => hash(Buffer.from([0]), data);

/** MTH and PATH as defined in RFC 9162 §2.1. */
function tree(leaves) {
  if (leaves.length === 1) return leaf(leaves[0]);
  const half = 2 ** Math.floor(Math.log2(leaves.length - 1));
  return hash(Buffer.from([1]), tree(leaves.slice(0, half)), tree(leaves.slice(half)));
}
function path(index, leaves) {
  if (leaves.length === 1) return [];
  const half = 2 ** Math.floor(Math.log2(leaves.length - 1));
  const [left, right] = [leaves.slice(0, half), leaves.slice(half)];
  return index < half ? [...path(index, left), tree(right)] : [...path(index - half, right), tree(left)];
}

test("a path leads to the root, and no other leaf, place or path does", () => {
  for (let size = 1; size <= 33; size += 1) {
    const leaves = Array.from({ length: size }, (_, index) => hash(Buffer.from([index])));
    const root = tree(leaves);
    leaves.forEach((data, index) => {
      const siblings = path(index, leaves);
      assert.ok(rootOf(data, index, size, siblings)?.equals(root), `${index} of ${size}`);
      const other = hash(data);
      assert.ok(!rootOf(other, index, size, siblings)?.equals(root));
      if (size > 1) {
        assert.ok(!rootOf(data, index, size, siblings.slice(1))?.equals(root));
        assert.ok(!rootOf(data, (index + 1) % size, size, siblings)?.equals(root));
      }
    });
  }
});

test("size and root are read from a head, for its own log only", () => {
  const [log, root] = [hash("log"), hash("root")];
  for (const [size, encoded] of [
    [5, [0x05]],
    [200, [0x18, 200]],
    [70_000, [0x1a, 0, 1, 0x11, 0x70]],
  ]) {
    const head = Buffer.from([
      0xd2,
      0xa5,
      0x01,
      0x58,
      0x20,
      ...log,
      0x02,
      ...encoded,
      0x03,
      0x58,
      0x20,
      ...root,
      0x04,
      0,
    ]);
    assert.deepEqual(readHead(head, log), { size, root });
    assert.equal(readHead(head, root), null);
  }
});

/** A host with one log, containing `receipts`. */
async function hostOf(log, receipts) {
  const leaves = receipts.map((receipt) => hash(receipt));
  const head = Buffer.concat([
    Buffer.from([0xd2, 0xa5, 0x01, 0x58, 0x20]),
    log,
    Buffer.from([0x02, leaves.length, 0x03, 0x58, 0x20]),
    tree(leaves),
  ]);
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://host");
    const index = leaves.findIndex((data) => data.toString("hex") === url.searchParams.get("receipt"));
    if (url.pathname !== `/v1/log/${log.toString("hex")}/inclusion` || index < 0) {
      response.writeHead(404).end("{}");
      return;
    }
    const siblings = path(index, leaves).map((sibling) => sibling.toString("hex"));
    response.end(JSON.stringify({ index, path: siblings, head: head.toString("base64url") }));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

test("a receipt that is in no log is counted by how its enclave ended", async () => {
  const [kept, killed, stranger] = ["kept", "killed", "stranger"].map((name) => hash(name));
  const ledger = new Ledger();
  const acknowledge = (log, receipt) =>
    ledger.add(
      JSON.stringify({
        receipt: Buffer.from(receipt).toString("base64url"),
        manifest: Buffer.concat([Buffer.from("manifest"), log]).toString("base64url"),
      }),
    );
  for (const receipt of ["a", "b", "c"]) acknowledge(kept, receipt);
  acknowledge(killed, "d");
  acknowledge(stranger, "e");
  const host = await hostOf(kept, ["x", "a", "b"]);
  try {
    const name = kept.toString("hex");
    const settled = await ledger.settle(host.url, [name], new Set([killed.toString("hex")]));
    assert.equal(settled.logged, 2);
    assert.deepEqual(
      [...settled.lost],
      [
        [name, 1],
        ["of no known log", 1],
      ],
    );
    assert.deepEqual([...settled.lostInKills], [[killed.toString("hex"), 1]]);
    assert.deepEqual([total(settled.lost), total(settled.lostInKills)], [2, 1]);
    assert.deepEqual(settled.wrong, []);
    // Its enclave was killed too: the same receipt now counts there.
    const all = await ledger.settle(host.url, [name], new Set([name, killed.toString("hex")]));
    assert.equal(total(all.lostInKills), 2);
  } finally {
    host.close();
  }
});

/** Samples of a soak, every five seconds: `at` returns the clients' results since the previous one. */
const samplesOf = (count, at) =>
  Array.from({ length: count }, (_, index) => ({ at: (index + 1) * 5_000, ...at(index) }));
const CLIENTS = [
  { name: "timed", timed: true },
  { name: "terminal", timed: false },
];
const well = { right: { timed: 9, terminal: 9 }, times: { timed: [10, 11, 12], terminal: [] } };
const judge = (samples) => judgeWork(CLIENTS, thirds(samples, 0));

test("a soak whose clients work to its end is right", () => {
  const { latency, faults } = judge(samplesOf(9, () => well));
  assert.deepEqual(faults, []);
  assert.deepEqual(latency, { timed: { p50: [11, 11], p99: [12, 12] } });
});

test("a client without a right answer in the last third is a fault, timed or not", () => {
  const idle = { right: { timed: 9, terminal: 0 }, times: well.times };
  assert.deepEqual(judge(samplesOf(9, (index) => (index < 6 ? well : idle))).faults, [
    "terminal: no right answer in the last third",
  ]);
  // A late answer is enough: latency is checked separately.
  assert.deepEqual(judge(samplesOf(9, (index) => (index < 6 || index === 8 ? well : idle))).faults, []);
});

test("a latency that is missing is a fault, and so is one that grew", () => {
  const untimed = { right: well.right, times: { timed: [], terminal: [] } };
  const missing = ["timed: no latency in the first or the last third"];
  assert.deepEqual(judge(samplesOf(9, (index) => (index < 6 ? well : untimed))).faults, missing);
  assert.deepEqual(judge(samplesOf(9, (index) => (index < 3 ? untimed : well))).faults, missing);
  assert.deepEqual(judge(samplesOf(9, () => untimed)).faults, missing);
  const slow = { right: well.right, times: { timed: [100], terminal: [] } };
  assert.deepEqual(judge(samplesOf(9, (index) => (index < 6 ? well : slow))).faults, ["timed: latency grew"]);
});

test("a soak without samples proves nothing", () => {
  assert.equal(judge([]).faults.length, 3);
});

test("the thirds leave out what warms up", () => {
  const [first, last] = thirds(
    samplesOf(30, () => well),
    60_000,
  );
  assert.deepEqual([first[0].at, first.length, last[0].at, last.length], [65_000, 6, 125_000, 6]);
});
