/** The exchange vectors of testing/conformance: receipts and rows, each with the code that every implementation gives. */
import assert from "node:assert/strict";
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { initialise, verifyBundle, verifyVector } from "../dist/index.js";

const folder = process.env.CLEARSEAL_KIT;
const list = process.env.CLEARSEAL_SKIPPED;
const reason = "no vectors; CLEARSEAL_KIT names their folder";
if (!folder && list) appendFileSync(list, `verifier-wasm::exchange_vectors\t${reason}\n`);

test("every vector has its code", { skip: folder ? false : reason }, async () => {
  await initialise();
  const suite = JSON.parse(readFileSync(join(folder, "exchanges.json"), "utf8"));
  assert.equal(suite.format, "clearseal-vectors/1");
  const { policy, receipts, vectors } = suite;
  assert.ok(receipts.length > 0 && vectors.length > 0);
  for (const { id, bundle, code } of receipts)
    assert.equal(verifyBundle(bundle, policy).receipt.code ?? "", code, `receipt ${id}`);
  for (const { id, proof, row, code } of vectors)
    assert.equal(verifyVector(row, proof, policy).receipt.code ?? "", code, `vector ${id}`);
});
