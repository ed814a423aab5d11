import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { readHead, rootOf } from "./ledger.mjs";

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
