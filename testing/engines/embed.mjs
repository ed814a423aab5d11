/**
 * Embeds texts with one engine: `node embed.mjs ENGINE MODEL TEXTS.json OUT`, in a folder with `@huggingface/transformers` and
 * `node-llama-cpp` installed.
 *
 * ENGINE is `transformers.js-fp32`, `transformers.js-q8` (MODEL is the folder of `export.py`), or `llama.cpp` (MODEL is a file in GGUF). Writes
 * the rows of each set to OUT.NAME.f32, and OUT.json with the version and the tokens of `hard`.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [engine, model, texts, out] = process.argv.slice(2);
const require = createRequire(join(process.cwd(), "package.json"));

/** Imports a package of the current folder. */
async function load(name) {
  return await import(pathToFileURL(require.resolve(name)).href);
}

async function startTransformers(dtype) {
  const { AutoTokenizer, env, pipeline } = await load("@huggingface/transformers");
  env.allowRemoteModels = false;
  env.localModelPath = dirname(resolve(model));
  const extract = await pipeline("feature-extraction", basename(model), { dtype });
  const tokenizer = await AutoTokenizer.from_pretrained(basename(model));
  return {
    version: env.version,
    embed: async (part) => (await extract(part, { pooling: "mean", normalize: true })).data,
    tokens: (text) => [...tokenizer(text, { truncation: true }).input_ids.data].map(Number),
  };
}

async function startLlama() {
  const { getLlama } = await import(
    pathToFileURL(join(process.cwd(), "node_modules/node-llama-cpp/dist/index.js")).href
  );
  const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
  const loaded = await llama.loadModel({ modelPath: resolve(model) });
  const context = await loaded.createEmbeddingContext({ contextSize: 512, batchSize: 512, threads: 1 });
  const { version } = JSON.parse(readFileSync("node_modules/node-llama-cpp/package.json", "utf8"));
  return {
    version,
    embed: async (part) => {
      const rows = [];
      for (const text of part) {
        if (loaded.tokenize(text).length === 0) {
          rows.push(...Array(384).fill(Number.NaN));
          continue;
        }
        const vector = (await context.getEmbeddingFor(text)).vector;
        const length = Math.hypot(...vector) || 1;
        rows.push(...vector.map((value) => value / length));
      }
      return Float32Array.from(rows);
    },
    tokens: (text) => loaded.tokenize(text).map(Number),
  };
}

const dtype = { "transformers.js-fp32": "fp32", "transformers.js-q8": "q8" }[engine];
const { version, embed, tokens } = dtype ? await startTransformers(dtype) : await startLlama();
const sets = JSON.parse(readFileSync(texts, "utf8"));
const failed = [];
const begun = performance.now();
for (const [name, part] of Object.entries(sets)) {
  const rows = new Float32Array(part.length * 384).fill(Number.NaN);
  const size = dtype ? 32 : 1;
  for (let at = 0; at < part.length; at += size) {
    try {
      rows.set(await embed(part.slice(at, at + size)), at * 384);
    } catch (cause) {
      failed.push([name, at, String(cause.message).slice(0, 120)]);
    }
  }
  writeFileSync(`${out}.${name}.f32`, Buffer.from(rows.buffer));
}
const seconds = Math.round((performance.now() - begun) / 1000);
writeFileSync(
  `${out}.json`,
  JSON.stringify({ versions: { [engine]: version }, tokens: sets.hard.map(tokens), failed, seconds }),
);
process.stdout.write(`${engine} ${version}: ${seconds} s, ${failed.length} failed\n`);
process.exit(0);
