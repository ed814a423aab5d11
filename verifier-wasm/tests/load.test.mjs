/** Places where the package may run: each test loads it again in a separate process. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));

/** Runs a program next to a copy of the built package, and returns what it prints. `edit` changes the entry of the copy. */
async function program(source, edit = (text) => text) {
  const folder = mkdtempSync(join(tmpdir(), "clearseal-load-"));
  try {
    for (const part of ["dist", "pkg", "package.json"]) {
      cpSync(join(root, part), join(folder, part), { recursive: true });
    }
    const entry = join(folder, "dist", "index.js");
    writeFileSync(entry, edit(readFileSync(entry, "utf8")));
    writeFileSync(join(folder, "main.mjs"), source);
    return (await run(process.execPath, ["main.mjs"], { cwd: folder })).stdout;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const without = (text) => text.replaceAll("import.meta.url", "undefined");

test("without import.meta.url the import works, and so does a module that the caller passes", async () => {
  const forms = [
    ["a compiled module", "new WebAssembly.Module(bytes)"],
    ["bytes", "bytes"],
    ["a buffer", "bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)"],
    ["a response", 'new Response(bytes, { headers: { "content-type": "application/wasm" } })'],
  ];
  for (const [form, given] of forms) {
    const output = await program(
      `
      import { readFileSync } from "node:fs";
      import { buildInfo, initialise } from "./dist/index.js";
      const bytes = readFileSync("pkg/clearseal_verifier_bg.wasm");
      await initialise(${given});
      process.stdout.write(buildInfo().version);
      `,
      without,
    );
    assert.match(output, /^\d+\.\d+\.\d+$/, form);
  }
});

const FAILED = `
  import { connect } from "./dist/index.js";
  const error = await connect("https://host.example").catch((cause) => cause);
  const { name, code, message, remedy } = error;
  process.stdout.write(JSON.stringify({ name, code, message, remedy, caused: error.cause instanceof Error }));
`;

test("a file that cannot be found is an error with a code and a remedy", async () => {
  const elsewhere = (text) => text.replace("clearseal_verifier_bg.wasm", "absent.wasm");
  for (const [edit, why] of [
    [without, /URL/],
    [elsewhere, /absent\.wasm/],
  ]) {
    const error = JSON.parse(await program(FAILED, edit));
    assert.equal(error.name, "ModuleUnavailable");
    assert.equal(error.code, "MODULE_UNAVAILABLE");
    assert.match(error.message, why);
    assert.match(error.remedy, /initialise\(\)/);
    assert.equal(error.caused, true);
  }
});

test("bundlers are told not to resolve what only Node has", () => {
  const entry = readFileSync(join(root, "dist", "index.js"), "utf8");
  assert.match(entry, /import\(\s*\/\* webpackIgnore: true \*\/ \/\* @vite-ignore \*\/ name\s*\)/);
});
