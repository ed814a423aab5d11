// Downloads against a stand-in hub that redirects, cuts connections, forgets ranges, changes bytes and refuses.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fetchFiles, hubOf, listFiles } from "./hub.mjs";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const CONFIG = Buffer.from('{"model_type":"bert"}');
const WEIGHTS = Buffer.alloc(300_000, "weights of a model ");
const scratch = mkdtempSync(join(tmpdir(), "hub-"));
after(() => rmSync(scratch, { recursive: true }));

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const gitBlob = (bytes) => createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");

/** Starts a hub and its store of large files. `weights(request, response)` answers for the weights. */
async function startHub(t, weights) {
  const seen = [];
  const listen = (handler) =>
    new Promise((done) => {
      const server = createServer((request, response) => {
        const { url, headers } = request;
        seen.push({ path: url, range: headers.range, authorization: headers.authorization });
        handler(request, response);
      });
      server.listen(0, "127.0.0.1", () => done(`http://127.0.0.1:${server.address().port}`));
      t.after(() => server.closeAllConnections());
      t.after(() => server.close());
    });
  const store = await listen(weights);
  const siblings = [
    { rfilename: "1_Pooling/config.json", size: CONFIG.length, blobId: gitBlob(CONFIG) },
    {
      rfilename: "model.safetensors",
      size: WEIGHTS.length,
      blobId: gitBlob(Buffer.from("a pointer")),
      lfs: { size: WEIGHTS.length, sha256: sha256(WEIGHTS), pointerSize: 134 },
    },
  ];
  const endpoint = await listen(({ url }, response) => {
    const resolve = `/org/small/resolve/${COMMIT}/`;
    if (url === "/api/models/org/small/revision/main?blobs=true") {
      response.end(JSON.stringify({ sha: COMMIT, siblings }));
    } else if (url === `${resolve}1_Pooling/config.json`) response.end(CONFIG);
    else if (url === `${resolve}model.safetensors`) {
      response.writeHead(302, { location: `${store}/blob` }).end();
    } else response.writeHead(url.startsWith("/api/models/org/gated/") ? 401 : 404).end();
  });
  const hub = hubOf({ HF_ENDPOINT: `${endpoint}/`, HF_TOKEN: "secret" }, 1);
  const inStore = () => seen.filter(({ path }) => path === "/blob");
  return { hub, seen, inStore };
}

/** Answers with a part of the weights, as a range asks. */
function sendRange({ headers }, response, { until = WEIGHTS.length } = {}) {
  const from = Number(/^bytes=(\d+)-$/.exec(headers.range ?? "")?.[1] ?? 0);
  if (headers.range) {
    response.writeHead(206, { "content-range": `bytes ${from}-${WEIGHTS.length - 1}/${WEIGHTS.length}` });
  }
  response.write(WEIGHTS.subarray(from, until), () =>
    until < WEIGHTS.length ? response.destroy() : response.end(),
  );
}

const assertComplete = (folder) => {
  assert.deepEqual(readFileSync(join(folder, "1_Pooling/config.json")), CONFIG);
  assert.deepEqual(readFileSync(join(folder, "model.safetensors")), WEIGHTS);
  assert.deepEqual(
    readdirSync(scratch).filter((name) => name.endsWith(".partial")),
    [],
  );
};

test("files are downloaded through a redirect, without the token", async (t) => {
  const { hub, seen, inStore } = await startHub(t, sendRange);
  const list = await listFiles(hub, "org/small", "main");
  assert.equal(list.commit, COMMIT);
  assert.deepEqual(
    list.files.map(({ name }) => name),
    ["1_Pooling/config.json", "model.safetensors"],
  );
  const lines = [];
  await fetchFiles(hub, list, join(scratch, "plain"), (line) => lines.push(line));
  assertComplete(join(scratch, "plain"));
  assert.equal(lines.at(-1), "2 of 2, model.safetensors: 100 % of 300 kB");
  assert.equal(seen[0].authorization, "Bearer secret");
  assert.deepEqual(inStore(), [{ path: "/blob", range: undefined, authorization: undefined }]);
});

test("a cut connection goes on where it ended", async (t) => {
  let cut = 0;
  const { hub, inStore } = await startHub(t, (request, response) => {
    cut += 1;
    sendRange(request, response, cut < 4 ? { until: cut * 50_000 } : {});
  });
  await fetchFiles(hub, await listFiles(hub, "org/small", "main"), join(scratch, "cut"));
  assertComplete(join(scratch, "cut"));
  const ranges = inStore().map(({ range }) => range);
  assert.deepEqual(ranges, [undefined, "bytes=50000-", "bytes=100000-", "bytes=150000-"]);
});

test("a later run goes on with the files of a stopped one", async (t) => {
  const { hub, inStore } = await startHub(t, sendRange);
  mkdirSync(join(scratch, "stopped.partial"));
  writeFileSync(join(scratch, "stopped.partial/model.safetensors"), WEIGHTS.subarray(0, 1_000));
  await fetchFiles(hub, await listFiles(hub, "org/small", "main"), join(scratch, "stopped"));
  assertComplete(join(scratch, "stopped"));
  assert.equal(inStore()[0].range, "bytes=1000-");
});

test("a server without ranges sends the whole file again", async (t) => {
  let answers = 0;
  const { hub } = await startHub(t, ({ headers }, response) => {
    answers += 1;
    sendRange(
      { headers: { ...headers, range: undefined } },
      response,
      answers === 1 ? { until: 70_000 } : {},
    );
  });
  await fetchFiles(hub, await listFiles(hub, "org/small", "main"), join(scratch, "whole"));
  assertComplete(join(scratch, "whole"));
});

test("a changed byte is refused by name, and not kept", async (t) => {
  const changed = Buffer.from(WEIGHTS);
  changed[123_456] ^= 1;
  const { hub } = await startHub(t, (_, response) => response.end(changed));
  const list = await listFiles(hub, "org/small", "main");
  const folder = join(scratch, "changed");
  await assert.rejects(fetchFiles(hub, list, folder), /model.safetensors has digest .* start again/);
  assert.deepEqual(readdirSync(`${folder}.partial`), ["1_Pooling"]);

  const small = { ...list, files: [{ ...list.files[0], git: gitBlob(WEIGHTS) }] };
  await assert.rejects(fetchFiles(hub, small, join(scratch, "small")), /1_Pooling\/config.json has digest/);
  rmSync(`${folder}.partial`, { recursive: true });
  rmSync(join(scratch, "small.partial"), { recursive: true });
});

test("refusals say what to do, and are not repeated", async (t) => {
  const { hub, seen } = await startHub(t, sendRange);
  await assert.rejects(listFiles(hub, "org/gated", "main"), /answers 401: .*HF_TOKEN/);
  await assert.rejects(listFiles(hub, "org/small", "v9"), /answers 404: .*--revision/);
  assert.equal(seen.length, 2);
  const outside = { model: "org/small", commit: COMMIT, files: [{ name: "../outside", size: 1, git: "" }] };
  await assert.rejects(fetchFiles(hub, outside, join(scratch, "in")), /outside its folder: \.\.\/outside/);
  assert.throws(() => hubOf({ HF_ENDPOINT: "ftp://hub" }), /HF_ENDPOINT is not an HTTP address/);
});

test("a hub that stays away is an error after five attempts", async (t) => {
  const { hub, inStore } = await startHub(t, (_, response) => response.writeHead(503).end());
  const list = await listFiles(hub, "org/small", "main");
  await assert.rejects(fetchFiles(hub, list, join(scratch, "away")), /answers 503/);
  assert.equal(inStore().length, 5);
});
