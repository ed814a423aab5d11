/** Runs programs as processes, with their paths, output and shutdown. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Root of the repository. */
export const root = fileURLToPath(new URL("../../", import.meta.url));
/** Folder of the built programs; the task runner passes it. */
export const binaries = process.env.CLEARSEAL_BIN_DIR ?? join(root, "target", "release");
/** Folder of the model. */
export const model =
  process.env.CLEARSEAL_MODEL ??
  join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "clearseal", "models", "all-MiniLM-L6-v2");

/** Path of a built program. */
export function binary(name) {
  const path = join(binaries, name);
  if (!existsSync(path)) throw new Error(`${path} is missing; build it: cargo build --release`);
  return path;
}

/** Bytes of a program's output that are kept, enough to show why it failed. */
const KEPT = 64 * 1024;

/** Processes that this process started and must end. */
const started = new Set();
process.on("exit", () => {
  for (const child of started) child.kill("SIGKILL");
});

/** For programs: makes a signal end the processes they started, too. */
export function endWithSignals() {
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
}

/** One running program. */
export class Program {
  #child;
  #output = "";
  #written = 0;

  /** @param {string} path @param {readonly string[]} args @param {Record<string, string>} [environment] */
  constructor(path, args, environment = {}) {
    this.name = path.split("/").at(-1) ?? path;
    this.#child = spawn(path, args, {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...process.env, ...environment },
    });
    started.add(this.#child);
    this.#child.on("exit", () => started.delete(this.#child));
    const keep = (chunk) => {
      this.#output = (this.#output + chunk.toString("utf8")).slice(-KEPT);
    };
    this.#child.stderr.on("data", (chunk) => {
      this.#written += chunk.length;
      keep(chunk);
    });
    this.#child.on("error", (error) => keep(Buffer.from(`${path}: ${error.message}`)));
    // A program that ends early stops reading its input.
    this.#child.stdin.on("error", () => {});
  }

  get pid() {
    return this.#child.pid;
  }

  get stdin() {
    return this.#child.stdin;
  }

  get stdout() {
    return this.#child.stdout;
  }

  /** The end of its standard error. */
  get output() {
    return this.#output;
  }

  /** Bytes written to standard error. */
  get written() {
    return this.#written;
  }

  get ended() {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Its exit status, once it has ended. */
  async exit() {
    if (!this.ended) await once(this.#child, "exit");
    return this.#child.exitCode;
  }

  /** Sends a signal to this process only. */
  signal(name) {
    if (!this.ended) this.#child.kill(name);
  }

  /** Asks it to end, and kills it after `patienceMs`. */
  async stop(patienceMs = 15_000) {
    if (this.ended) return;
    const exit = once(this.#child, "exit");
    // A stopped process handles no other signal.
    this.#child.kill("SIGCONT");
    this.#child.kill("SIGTERM");
    const late = setTimeout(() => this.#child.kill("SIGKILL"), patienceMs);
    await exit;
    clearTimeout(late);
  }

  /** Kills it immediately, so that it writes nothing more. */
  async kill() {
    if (this.ended) return;
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }
}

/** Resident bytes and open files of a process; null once it has ended. */
export function usage(pid) {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const kib = /VmRSS:\s+(\d+)/.exec(status)?.[1];
    return { memory: Number(kib) * 1024, handles: readdirSync(`/proc/${pid}/fd`).length };
  } catch {
    return null;
  }
}

/** Resident memory of a process, in whole MiB; 0 once it has ended. */
export function mebibytes(pid) {
  return Math.round((usage(pid)?.memory ?? 0) / 2 ** 20);
}

/** A TCP port that is currently free. */
export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until `url` answers with success; fails if one of `programs` has ended. */
export async function ready(url, programs, patienceMs = 120_000) {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const dead = programs.find((program) => program.ended);
    if (dead) throw new Error(`${dead.name} ended before it was ready:\n${dead.output}`);
    const answer = await fetch(url, { signal: AbortSignal.timeout(2_000) }).catch(() => null);
    if (answer?.ok) return;
    if (Date.now() > deadline) throw new Error(`${url} did not become ready`);
    await pause(50);
  }
}
