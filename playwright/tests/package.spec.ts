import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { test as base, expect } from "@playwright/test";
import { Models } from "../fixtures/models.ts";
import { binary, root } from "../fixtures/processes.ts";
import { Stack } from "../fixtures/stack.ts";

/** The package as npm would publish it, installed into a separate project. */

const run = promisify(execFile);

const test = base.extend<object, { project: string }>({
  project: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the fixture's dependencies from this pattern.
    async ({}, use) => {
      const project = mkdtempSync(join(tmpdir(), "clearseal-package-"));
      const packed = await run("npm", ["pack", "--json", "--pack-destination", project], {
        cwd: join(root, "verifier-wasm"),
      });
      const [{ filename }] = JSON.parse(packed.stdout) as [{ filename: string }];
      writeFileSync(join(project, "package.json"), '{"name":"fresh","private":true,"type":"module"}');
      await run("npm", ["install", "--offline", "--no-audit", "--no-fund", join(project, filename)], {
        cwd: project,
      });
      // A further dependency of the project, from this repository's own.
      cpSync(join(root, "node_modules", "openai"), join(project, "node_modules", "openai"), {
        recursive: true,
      });
      await use(project);
      rmSync(project, { recursive: true, force: true });
    },
    { scope: "worker" },
  ],
});

const installed = (project: string) => join(project, "node_modules", "@clearseal", "verifier");

/** Connects, and embeds with OpenAI's own client through the session's `fetch`. */
const OPENAI = `
import OpenAI from "openai";
import { connect } from "@clearseal/verifier";
const url = process.env.SERVICE;
const connection = await connect(url, { allowSimulated: true });
if (connection.status !== "simulated") throw new Error(connection.status);
const { session, report } = connection;
const openai = new OpenAI({ baseURL: \`\${url}/v1\`, apiKey: "none", fetch: session.fetch });
const model = report.manifest.modelId;
const { data } = await openai.embeddings.create({ model, input: ["The cat sleeps.", "A kitten naps."] });
const wrong = await openai.embeddings.create({ model: "no-such-model", input: "x" }).catch((error) => error.status);
console.log(JSON.stringify({ lengths: data.map(({ embedding }) => embedding.length), wrong }));
session.close();
`;

test("the package contains licences, README, types, and source maps with their sources", ({ project }) => {
  const folder = installed(project);
  const files = readdirSync(folder);
  for (const name of ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "dist", "js", "pkg"]) {
    expect(files).toContain(name);
  }
  expect(files).not.toContain("tests");
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, unknown>;
  expect(manifest.private).toBeUndefined();
  expect(manifest.dependencies).toBeUndefined();
  for (const name of readdirSync(join(folder, "dist")).filter((file) => file.endsWith(".map"))) {
    const map = JSON.parse(readFileSync(join(folder, "dist", name), "utf8")) as { sources: string[] };
    for (const source of map.sources) readFileSync(join(folder, "dist", source));
  }
});

test("Node: OpenAI's own client runs over a session's fetch", async ({ project }) => {
  const stack = await Stack.start();
  try {
    writeFileSync(join(project, "main.mjs"), OPENAI);
    const { stdout } = await run("node", ["main.mjs"], {
      cwd: project,
      env: { ...process.env, SERVICE: stack.url },
    });
    expect(JSON.parse(stdout)).toEqual({ lengths: [384, 384], wrong: 404 });
    expect(stack.back.recorded.includes("kitten")).toBe(false);
  } finally {
    await stack.close();
  }
});

/** Streams texts of which the enclave refuses two, and no channel takes a third. */
const STREAM = `
import { connect } from "@clearseal/verifier";
const { session } = await connect(process.env.SERVICE, { allowSimulated: true });
const texts = Array.from({ length: 60 }, (_, at) => \`line \${at}\`);
texts[3] = "";
texts[20] = "word ".repeat(14_000);
texts[41] = "x".repeat(600 * 1024);
const parts = [];
for await (const { status, first, count, code, dimension } of session.stream(texts)) {
  parts.push([status, first, count, code ?? dimension]);
}
console.log(JSON.stringify(parts));
session.close();
`;

test("Node: a text that is refused fails alone in a stream", async ({ project }) => {
  const stack = await Stack.start();
  try {
    writeFileSync(join(project, "stream.mjs"), STREAM);
    // Node 20 has its WebSocket behind this flag.
    const { stdout } = await run("node", ["--experimental-websocket", "stream.mjs"], {
      cwd: project,
      env: { ...process.env, SERVICE: stack.url },
    });
    expect(JSON.parse(stdout)).toEqual([
      ["embedded", 0, 3, 384],
      ["rejected", 3, 1, "INPUT_EMPTY"],
      ["embedded", 4, 16, 384],
      ["rejected", 20, 1, "TEXT_TOO_LONG"],
      ["embedded", 21, 20, 384],
      ["rejected", 41, 1, "TEXT_TOO_LONG"],
      ["embedded", 42, 18, 384],
    ]);
  } finally {
    await stack.close();
  }
});

/** Reranks with the second model of a service, and writes rows and proofs as `clearseal rerank` does. */
const RERANK = `
import { writeFileSync } from "node:fs";
import { connect } from "@clearseal/verifier";
const { session } = await connect(process.env.SERVICE, { allowSimulated: true });
const models = session.models.map(({ id, dimension }) => [id, dimension]);
const documents = ["a key", "the key is released to the enclave", "a cat sleeps"];
const query = "how are keys released?";
const ranking = await session.rerank(query, documents, { model: "ranker", topN: 2 });
const { results, evidence, model, receipt } = ranking;
const row = ({ index, document, score, tokens, truncated }) =>
  JSON.stringify({ index, relevance_score: score, query, document, tokens, truncated });
writeFileSync("ranking.jsonl", results.map((result) => row(result) + "\\n").join(""));
writeFileSync("proofs.jsonl", [evidence, ...results.map(({ proof }) => proof)].join("\\n") + "\\n");
const { policy } = (await session.withModel("ranker")).evidence;
writeFileSync("ranker-policy.json", policy);
const refused = await session.rerank(query, documents).catch(({ code }) => code);
const unknown = await session.rerank(query, documents, { model: "other" }).catch(({ code }) => code);
console.log(JSON.stringify({ models, model, verdict: receipt.verdict, count: results.length, refused, unknown }));
session.close();
`;

test("Node: pairs are scored by another model, and the terminal verifies their proofs", async ({
  project,
}) => {
  const models = new Models();
  const stack = await Stack.start([...models.embedding("small"), ...models.reranking("ranker")]);
  try {
    writeFileSync(join(project, "rerank.mjs"), RERANK);
    const env = { ...process.env, SERVICE: stack.url };
    const { stdout } = await run("node", ["rerank.mjs"], { cwd: project, env });
    expect(JSON.parse(stdout)).toEqual({
      models: [
        ["small", 32],
        ["ranker", 1],
      ],
      model: "ranker",
      verdict: "simulated",
      count: 2,
      refused: "MODEL_TASK",
      unknown: "MODEL_NOT_SERVED",
    });
    expect(stack.back.recorded.includes("the key is released")).toBe(false);
    const verify = ["verify", "vector", "proofs.jsonl", "ranking.jsonl", "--policy", "ranker-policy.json"];
    // 1: the rows are proved, by a simulated enclave.
    const verified = await run(binary("clearseal"), verify, { cwd: project }).catch((error) => error);
    expect(verified.code).toBe(1);
    expect(`${verified.stdout}${verified.stderr}`).toContain("simulated");
    expect(`${verified.stdout}${verified.stderr}`).not.toContain("MISMATCH");
  } finally {
    await stack.close();
    models.remove();
  }
});

/** Shows the status of a connection and the number of vectors. */
const PAGE = (specifier: string) => `
import { connect } from ${JSON.stringify(specifier)};
const connection = await connect(location.origin, { allowSimulated: true });
const { session, report } = connection;
const response = await session.fetch("/v1/embeddings", {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ model: report.manifest.modelId, input: ["one", "two"] }),
});
const { data } = await response.json();
document.body.textContent = \`\${connection.status} \${data.length}\`;
`;

const HTML = '<!doctype html><html lang="en"><title>fresh</title><body></body>';

test("a browser without a bundler: one script of type module", async ({ project, page }) => {
  const web = join(project, "bare");
  mkdirSync(web);
  cpSync(join(project, "node_modules", "@clearseal"), join(web, "assets", "@clearseal"), { recursive: true });
  writeFileSync(join(web, "assets", "app.js"), PAGE("./@clearseal/verifier/dist/index.js"));
  writeFileSync(
    join(web, "index.html"),
    `${HTML}<script type="module" src="/assets/app.js"></script></html>`,
  );
  const stack = await Stack.start([], web);
  try {
    await page.goto(stack.url);
    await expect(page.locator("body")).toHaveText("simulated 2");
  } finally {
    await stack.close();
  }
});

test("a browser with Vite: the module is found and shipped with the page", async ({ project, page }) => {
  const source = join(project, "vite");
  mkdirSync(source);
  writeFileSync(join(source, "app.js"), PAGE("@clearseal/verifier"));
  writeFileSync(join(source, "index.html"), `${HTML}<script type="module" src="/app.js"></script></html>`);
  const web = join(project, "built");
  await run(
    "node",
    [
      join(root, "node_modules", "vite", "bin", "vite.js"),
      "build",
      source,
      "--outDir",
      web,
      "--target",
      "es2023",
    ],
    { cwd: project },
  );
  expect(readdirSync(join(web, "assets")).filter((name) => name.endsWith(".wasm"))).toHaveLength(1);
  const stack = await Stack.start([], web);
  try {
    await page.goto(stack.url);
    await expect(page.locator("body")).toHaveText("simulated 2");
  } finally {
    await stack.close();
  }
});
