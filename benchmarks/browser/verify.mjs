/**
 * Measures how long a genuine attestation document takes to verify in Chromium: `npm run bench:browser`.
 *
 * Four variants, interleaved in one page: signatures by WebCrypto, signatures in WebAssembly, and each of them with the chain's
 * signatures already cached. The first verification of a fresh page is listed separately, because the module's code is compiled
 * while it runs. Prints a table; `-- --out FILE` writes a record that can be compared with the native ones.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { out } = parseArgs({ options: { out: { type: "string" } } }).values;

const root = fileURLToPath(new URL("../..", import.meta.url));
const vectors = process.env.CLEARSEAL_VECTORS ?? join(root, "../shared/vectors");
const documents = join(vectors, "nitro/documents");
const ROUNDS = Number(process.env.ROUNDS ?? 40);
const PAGES = Number(process.env.PAGES ?? 10);

const print = (line) => process.stdout.write(`${line}\n`);

if (!existsSync(documents)) {
  print("skipped: no vectors");
  process.exit(0);
}

const { chromium } = createRequire(join(root, "playwright/package.json"))("@playwright/test");

/** The longest genuine document: registers, chain and all optional fields. */
const document = readdirSync(documents, { recursive: true })
  .map((name) => join(documents, name))
  .filter((name) => /\.(cbor|bin|cose)$/.test(name))
  .map((name) => readFileSync(name))
  .sort((a, b) => b.length - a.length)
  .find((bytes) => bytes.includes("timestamp"));

const TYPES = { js: "text/javascript", wasm: "application/wasm", html: "text/html" };

const server = createServer((request, response) => {
  const path = new URL(request.url, "http://localhost").pathname;
  if (path === "/") {
    response.writeHead(200, { "content-type": TYPES.html }).end("<!doctype html><title>verify</title>");
    return;
  }
  const file = join(root, "verifier-wasm", path);
  if (!/^\/(dist|pkg)\/[\w.-]+$/.test(path) || !existsSync(file)) {
    response.writeHead(404).end();
    return;
  }
  const type = TYPES[path.slice(path.lastIndexOf(".") + 1)] ?? "application/octet-stream";
  response.writeHead(200, { "content-type": type }).end(readFileSync(file));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://localhost:${server.address().port}/`;

// The benchmark itself keeps processors busy.
const load = Number(loadavg()[0].toFixed(2));
const built = identifyModule();

const browser = await chromium.launch({
  executablePath: process.env.CLEARSEAL_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});

/** Hash of the served module, which may be older than the commit. */
function identifyModule() {
  const bytes = readFileSync(join(root, "verifier-wasm/pkg/clearseal_verifier_bg.wasm"));
  return `${bytes.length} bytes, SHA-256 ${createHash("sha256").update(bytes).digest("hex")}`;
}

/** Runs in the page. */
async function measure({ base64, rounds }) {
  const module = await import("/dist/index.js");
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const timed = async (work) => {
    const began = performance.now();
    const report = await work();
    return { ms: performance.now() - began, report };
  };
  const load = await timed(() => module.initialise());
  // The document's own timestamp: text(9) "timestamp", then an unsigned integer of 8 bytes.
  const text = new TextEncoder().encode("timestamp");
  const at = bytes.findIndex((_, start) => text.every((byte, offset) => bytes[start + offset] === byte));
  const madeAt = Number(new DataView(bytes.buffer).getBigUint64(at + 10));
  const ways = {
    "WebCrypto, nothing remembered": async () => {
      module.forgetSignatures();
      return timed(() => module.inspectDocumentFast(bytes, madeAt));
    },
    "WebAssembly, nothing remembered": async () => {
      module.forgetSignatures();
      return timed(() => module.inspectDocument(bytes, madeAt));
    },
    "WebCrypto, chain remembered": () => timed(() => module.inspectDocumentFast(bytes, madeAt)),
    "WebAssembly, chain remembered": () => timed(() => module.inspectDocument(bytes, madeAt)),
  };
  const times = { load: [load.ms], verdicts: [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, run] of Object.entries(ways)) {
      const { ms, report } = await run();
      times[name] = [...(times[name] ?? []), ms];
      if (!times.verdicts.includes(report.verdict)) times.verdicts.push(report.verdict);
    }
  }
  return times;
}

const statistics = (times) => {
  const sorted = times.toSorted((a, b) => a - b);
  const nearest = (share) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
  const mean = sorted.reduce((sum, one) => sum + one, 0) / sorted.length;
  return {
    samples: sorted.length,
    mean,
    min: sorted[0],
    p50: nearest(0.5),
    p95: nearest(0.95),
    max: sorted.at(-1),
  };
};

const results = {};
const add = (name, times) => {
  results[name] = [...(results[name] ?? []), ...times];
};
const base64 = document.toString("base64");
for (let page = 0; page < PAGES; page += 1) {
  const context = await browser.newContext();
  const fresh = await context.newPage();
  await fresh.goto(origin);
  // The last page runs the rounds; the others measure what happens once per page.
  const times = await fresh.evaluate(measure, { base64, rounds: page === PAGES - 1 ? ROUNDS : 1 });
  if (times.verdicts.join() !== "authentic") throw new Error(`the document is ${times.verdicts}`);
  add("module loaded and compiled", times.load);
  const first = Object.entries(times).filter(([name]) => name.includes(","));
  add("first verification of a page, WebCrypto", first[0][1].slice(0, 1));
  if (page === PAGES - 1) for (const [name, all] of first) add(name, all.slice(1));
  await context.close();
}
const version = browser.version();
await browser.close();
server.close();

const rows = Object.entries(results).map(([name, times]) => ({ name, statistics: statistics(times) }));
print(`Chromium ${version}, a document of ${document.length} bytes; milliseconds`);
print(`module of ${built}`);
for (const { name, statistics } of rows) {
  const { samples, min, p50, p95, max } = statistics;
  const figures = [min, p50, p95, max].map((ms) => ms.toFixed(1).padStart(7)).join("");
  print(`${name.padEnd(42)} n=${String(samples).padStart(3)} min/median/p95/max${figures}`);
}
if (out) {
  const git = (...words) => execFileSync("git", words, { cwd: root, encoding: "utf8" }).trim();
  const commit = git("rev-parse", "--short=12", "HEAD");
  const [{ model }, { length }] = [cpus()[0], cpus()];
  const record = {
    id: "browser",
    environment: "development",
    title: `Clearseal ${commit}, Chromium`,
    timestamp: new Date().toISOString(),
    commit,
    machine: { cpu: model, vcpus: length, load_average: load },
    setup: { repetitions: ROUNDS, dirty: git("status", "--porcelain") !== "" },
    benchmarks: ["browser"],
    notes: [
      `A genuine document of ${document.length} bytes, in Chromium ${version}.`,
      `The commit is that of the working tree. The module was built before: ${built}.`,
    ],
    measurements: rows.map(({ name, statistics }) => ({
      subject: "cose.full",
      parameters: { kind: name },
      unit: "ms",
      statistics,
    })),
  };
  writeFileSync(out, `${JSON.stringify({ format: "clearseal.benchmarks/1", records: [record] }, null, 2)}\n`);
  print(`written to ${out}`);
}
