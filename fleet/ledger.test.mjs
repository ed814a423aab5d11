import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { readHead, rootOf } from "./ledger.mjs";
import { judgeWork, thirds } from "./verdict.mjs";

const hash = (...parts) => parts.reduce((sum, part) => sum.update(part), createHash("sha256")).digest();
const leaf = (data) => hash(Buffer.from([0]), data);

/** MTH and PATH of RFC 9162 §2.1, as they are defined. */
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

test("size and root are read out of a head, of its own log alone", () => {
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

/** Samples of a soak, every five seconds: `at` gives what the clients did since the one before. */
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
  // One that came late is enough: what answers cost is judged by itself.
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
