/**
 * Runs the package in other people's runtimes and bundlers, and writes the table of README.md. Installs them from npm in a
 * temporary folder; needs the built programs (`CLEARSEAL_BIN_DIR`, default target/release), the built package, and Chromium.
 *
 *     npm run runtimes -- [--only NAME]… [--write]
 */
import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { chromium } from "@playwright/test";
import {
  binary,
  endWithSignals,
  freePort,
  model,
  Program,
  ready,
  root,
} from "../../testing/fleet/processes.mjs";
import { casesIn, MARKER, PACKAGES, parseTitle } from "./cases.mjs";

const exec = promisify(execFile);
const STEPS = ["connect", "fetch", "stream", "verifyVector"];
const README = join(root, "verifier-wasm", "README.md");

const { values: options } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    write: { type: "boolean" },
    project: { type: "string" },
  },
});
endWithSignals();
const project = options.project ?? mkdtempSync(join(tmpdir(), "clearseal-runtimes-"));
const running = [];
try {
  await install();
  const { url, enclave } = await serve();
  await describeInput(url);
  copyFileSync(new URL("scenario.mjs", import.meta.url), join(project, "scenario.mjs"));
  const rows = [];
  for (const one of casesIn(project)) {
    if (options.only && !options.only.some((name) => one.name.toLowerCase().includes(name.toLowerCase())))
      continue;
    const results = await attempt(() => (one.build ? inChromium(one, enclave) : one.run()));
    rows.push({ ...one, results });
    process.stdout.write(`${one.name} ${one.version}: ${JSON.stringify(results)}\n`);
  }
  if (options.write) write(rows);
  process.exitCode = rows.every(({ results }) => STEPS.every((step) => results[step] === "ok")) ? 0 : 1;
} finally {
  for (const program of running.reverse()) await program.stop();
  if (!options.project) rmSync(project, { recursive: true, force: true });
}

async function install() {
  const packed = await exec("npm", ["pack", "--json", "--pack-destination", project], {
    cwd: join(root, "verifier-wasm"),
  });
  const [{ filename }] = JSON.parse(packed.stdout);
  const dependencies = { ...PACKAGES, "@clearseal/verifier": `file:${filename}` };
  // Their scripts put the programs in place.
  const allowScripts = Object.fromEntries(["bun", "deno", "esbuild", "workerd"].map((name) => [name, true]));
  const manifest = { private: true, type: "module", dependencies, allowScripts };
  writeFileSync(join(project, "package.json"), JSON.stringify(manifest));
  await exec("npm", ["install", "--no-audit", "--no-fund"], { cwd: project });
}

/** Starts a simulated enclave and its host. */
async function serve() {
  const enclave = `tcp:127.0.0.1:${await freePort()}`;
  start("enclave-server", ["--listen", enclave, "--simulate-nsm", "--model", model]);
  return { enclave, url: await startHost(enclave, []) };
}

async function startHost(enclave, more) {
  const listen = `127.0.0.1:${await freePort()}`;
  start("host-proxy", ["--listen", listen, "--enclave", enclave, ...more]);
  await ready(`http://${listen}/readyz`, running);
  return `http://${listen}`;
}

function start(name, args) {
  running.push(new Program(binary(name), args));
}

/** Embeds one line with its proof, for `verifyVector`. */
async function describeInput(url) {
  const proofs = join(project, "proofs.jsonl");
  const embedding = exec(binary("clearseal"), [
    "embed",
    "--url",
    url,
    "--accept-simulated",
    "--proofs",
    proofs,
  ]);
  embedding.child.stdin.end("The cat sleeps.\n");
  const [row] = (await embedding).stdout.split("\n");
  const [evidence, proof] = readFileSync(proofs, "utf8").split("\n");
  const policy = await (await fetch(`${url}/v1/development-policy`)).text();
  const input = { url, row, proof: `${evidence}\n${proof}\n`, policy };
  writeFileSync(join(project, "input.mjs"), `export default ${JSON.stringify(input)};\n`);
}

/** Opens a built page in Chromium, served by a host with its Content-Security-Policy. */
async function inChromium({ build, bypassCSP = false }, enclave) {
  const url = await startHost(enclave, ["--web", await build()]);
  const browser = await chromium.launch({
    executablePath: process.env.CLEARSEAL_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
  try {
    const page = await browser.newPage({ bypassCSP });
    const errors = [];
    page.on("pageerror", (error) => errors.push(error.message));
    await page.goto(url);
    await page
      .waitForFunction((mark) => document.title.startsWith(mark), MARKER, { timeout: 60_000 })
      .catch(() => Promise.reject(new Error(errors.join("; ") || "the page does not finish")));
    return parseTitle(await page.title());
  } finally {
    await browser.close();
  }
}

async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    const why = `${error.message} ${error.stderr ?? ""} ${error.stdout ?? ""}`
      .replaceAll(/\s+/g, " ")
      .slice(0, 600);
    return Object.fromEntries(STEPS.map((step, at) => [step, at === 0 ? why : "not run"]));
  }
}

/** Replaces the table between the markers of README.md. */
function write(rows) {
  const cell = (result) => (result === "ok" ? "✓" : `✗ ${result.split(":")[0]}`);
  const lines = rows.map(
    ({ name, version, how, results }) =>
      `| ${name.replace(/^\S+/, (tool) => `${tool} ${version}`)} | ${STEPS.map((step) => cell(results[step])).join(" | ")} | ${how} |`,
  );
  const date = new Date().toISOString().slice(0, 10);
  const table = [
    `Tried on ${date}:`,
    "",
    `| runtime | ${STEPS.map((step) => `\`${step}\``).join(" | ")} | how |`,
    `|---|${STEPS.map(() => "---|").join("")}---|`,
    ...lines,
  ].join("\n");
  const text = readFileSync(README, "utf8");
  const pattern = /(<!-- runtimes -->\n)[\s\S]*?(\n<!-- \/runtimes -->)/;
  if (!pattern.test(text)) throw new Error("README.md has no markers of the table");
  writeFileSync(
    README,
    text.replace(pattern, (_, start, end) => start + table + end),
  );
}
