/** Reports are the same with and without WebCrypto, and an accepted signature is valid only for its key and message. */
import assert from "node:assert/strict";
import { appendFileSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { forgetSignatures, initialise, inspectDocument, inspectDocumentFast } from "../dist/index.js";

const vectors =
  process.env.CLEARSEAL_VECTORS ?? fileURLToPath(new URL("../../../shared/vectors", import.meta.url));
const folder = join(vectors, "nitro", "documents");
const skip = existsSync(folder) ? false : "skipped: no vectors";
// The task runner counts skipped tests.
if (skip && process.env.CLEARSEAL_SKIPPED) {
  appendFileSync(
    process.env.CLEARSEAL_SKIPPED,
    "verifier-wasm/tests/accelerate.test.mjs\tno published vectors\n",
  );
}

await initialise();

/** Timestamp of a document in milliseconds, at which its chain is valid. */
function madeAt(document) {
  // Text(9) "timestamp", then an unsigned integer of 8 bytes.
  const at = document.indexOf(
    Buffer.from("69timestamp1b".replace("timestamp", Buffer.from("timestamp").toString("hex")), "hex"),
  );
  return at < 0 ? 0 : Number(document.readBigUInt64BE(at + 11));
}

function documents() {
  return readdirSync(folder, { recursive: true })
    .map((name) => join(folder, name))
    .filter((name) => /\.(cbor|bin|cose)$/.test(name))
    .map((name) => readFileSync(name));
}

/** The parts of a report that must be equal; the text about who verified a signature differs. */
const essence = ({ verdict, code, checks }) => ({
  verdict,
  code,
  states: checks.map(({ id, state, code }) => ({ id, state, code })),
});

async function both(document, at) {
  forgetSignatures();
  const alone = essence(inspectDocument(document, at));
  forgetSignatures();
  const fast = essence(await inspectDocumentFast(document, at));
  const remembered = essence(inspectDocument(document, at));
  assert.deepEqual(fast, alone);
  assert.deepEqual(remembered, alone);
  return alone.verdict;
}

test("genuine documents get the same report with and without WebCrypto", { skip }, async () => {
  const all = documents();
  assert.ok(all.length > 50, "the vectors are there");
  const verdicts = new Set();
  for (const document of all) verdicts.add(await both(document, madeAt(document)));
  assert.ok(verdicts.has("authentic"));
});

test("changed documents get the same report too", { skip }, async () => {
  for (const document of documents().slice(0, 4)) {
    const at = madeAt(document);
    for (let step = 1; step <= 24; step += 1) {
      const changed = Buffer.from(document);
      const place = Math.floor((step * (document.length - 1)) / 24);
      changed[place] ^= 1;
      await both(changed, at);
    }
  }
});

test("the verdict does not depend on a WebCrypto that says no, throws, or says something else", {
  skip,
}, async () => {
  const document = documents()[0];
  const at = madeAt(document);
  forgetSignatures();
  const alone = essence(inspectDocument(document, at));
  const answers = [
    async () => false,
    async () => {
      throw new Error("not here");
    },
    async () => "yes",
    async () => 1,
  ];
  for (const verify of answers) {
    forgetSignatures();
    const subtle = { importKey: async () => ({}), verify };
    assert.deepEqual(essence(await inspectDocumentFast(document, at, subtle)), alone);
  }
});

test("accepted signatures of one document do not apply to another", { skip }, async () => {
  const [first, second] = documents();
  const broken = Buffer.from(second);
  broken[broken.length - 1] ^= 1;
  forgetSignatures();
  await inspectDocumentFast(first, madeAt(first));
  const report = inspectDocument(broken, madeAt(second));
  assert.equal(report.verdict, "refused");
});

test("the platform computes all signatures of a genuine document, and none where there is no WebCrypto", {
  skip,
}, async () => {
  const [document] = documents();
  const at = madeAt(document);
  const by = async (subtle) => {
    forgetSignatures();
    const { checks } = await inspectDocumentFast(document, at, subtle);
    return checks.filter(({ observed }) => observed.includes("computed by the platform")).map(({ id }) => id);
  };
  assert.deepEqual((await by(globalThis.crypto.subtle)).sort(), [14, 21]);
  assert.deepEqual(await by(null), []);
});

test("documents that are verified concurrently do not share accepted signatures", { skip }, async () => {
  const [first, second] = documents();
  const broken = Buffer.from(second);
  broken[broken.length - 1] ^= 1;
  forgetSignatures();
  const reports = await Promise.all(
    [first, broken, first, broken].map((document) =>
      inspectDocumentFast(document, madeAt(document === first ? first : second)),
    ),
  );
  assert.deepEqual(
    reports.map(({ verdict }) => verdict),
    ["authentic", "refused", "authentic", "refused"],
  );
});
