// `npm start` and `npm test` begin here: the one step before there is a task runner. It says what is missing, builds the
// runner, and hands over to it.
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const runner = ["run", "--quiet", "--profile", "xtask", "--package", "xtask", "--"];

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}

// As package.json has it, and xtask/src/needs.rs: what Vite runs on.
const [major, minor] = process.versions.node.split(".").map(Number);
if (!((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22)) {
  fail(`Node.js ${process.versions.node} does not do; install 20.19, 22.12 or newer from https://nodejs.org`);
}
if (process.platform !== "linux") {
  fail(
    `Clearseal's servers run on Linux alone, for they speak vsock; this is ${process.platform}.\n` +
      "Run it in a container or a virtual machine with Linux, on x86-64 or ARM.\n" +
      "The npm package runs here as it is, and these crates compile: attestation, protocol, channel, engine, release.",
  );
}
if (!["x64", "arm64"].includes(process.arch)) {
  fail(`Clearseal is built for x86-64 and 64-bit ARM; this processor is ${process.arch}.`);
}
const cargo = spawnSync("cargo", ["--version"], { cwd: root, encoding: "utf8" });
if (cargo.error) {
  fail(
    "Rust is missing: there is no `cargo` on the path.\n" +
      "Install it with rustup (https://rustup.rs):\n\n" +
      "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh\n\n" +
      "or on Debian: apt-get install rustup && rustup default stable\n" +
      "then open a new terminal and run the same command again.",
  );
}
if (cargo.status !== 0) {
  fail(`\`cargo --version\` fails:\n${cargo.stderr}`);
}

// The terminal's Ctrl-C reaches the runner as well, which ends in order; a signal to us alone is passed on.
let child;
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child?.kill(signal));
}

await buildRunner();
child = spawn("cargo", [...runner, ...process.argv.slice(2)], { cwd: root, stdio: "inherit" });
child.on("exit", (code) => {
  process.exitCode = code ?? 1;
});

/** Builds the runner, with the last line of cargo's output and the time shown meanwhile. */
async function buildRunner() {
  const target = process.env.CARGO_TARGET_DIR ?? `${root}/target`;
  if (!existsSync(`${target}/xtask/xtask`)) {
    console.log("Building the task runner, once: a minute or two.");
  }
  const begun = Date.now();
  const build = spawn("cargo", ["build", "--profile", "xtask", "--package", "xtask"], {
    cwd: root,
    stdio: ["ignore", "ignore", "pipe"],
  });
  child = build;
  let output = "";
  build.stderr.setEncoding("utf8");
  build.stderr.on("data", (text) => {
    output += text;
    if (process.stdout.isTTY) {
      const last = output.trimEnd().split("\n").at(-1) ?? "";
      const line = `${Math.round((Date.now() - begun) / 1000)} s ${last.trim()}`;
      process.stdout.write(`\r\x1b[2K${line.slice(0, (process.stdout.columns ?? 80) - 1)}`);
    }
  });
  const code = await new Promise((resolve) => build.on("close", resolve));
  if (process.stdout.isTTY) {
    process.stdout.write("\r\x1b[2K");
  }
  if (code !== 0) {
    fail(`the task runner cannot be built:\n${output}`);
  }
}
