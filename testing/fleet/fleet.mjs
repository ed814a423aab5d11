/** Replicas, each an enclave with its host-proxy, behind the HAProxy that `deploy/haproxy` configures. */

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { binary, freePort, model, Program, ready, root } from "./processes.mjs";
import { Wire } from "./wire.mjs";

const REPLICA = "    server replica-1 127.0.0.1:8081";

/** The shipped configuration, with its single replica replaced by one line per port. */
function configuration(ports) {
  const shipped = readFileSync(join(root, "deploy/haproxy/haproxy.cfg"), "utf8");
  const lines = shipped.split("\n").flatMap((line) => {
    if (!line.startsWith(REPLICA)) return [line];
    const rest = line.slice(REPLICA.length);
    return ports.map(
      (port, index) =>
        `    server replica-${index + 1} 127.0.0.1:${port}${rest.replace("/replica-1", `/replica-${index + 1}`)}`,
    );
  });
  return lines.join("\n");
}

/** Another release: a program that behaves the same but has other measurements. */
export function otherRelease(folder) {
  const path = join(folder, "enclave-server");
  copyFileSync(binary("enclave-server"), path);
  // Appended after the last section, which no loader reads.
  appendFileSync(path, "another release\n");
  return path;
}

/** One enclave and its proxy. */
export class Replica {
  #fleet;
  #socket;
  #enclave = null;
  #proxy = null;

  constructor(fleet, number, port, wire) {
    this.#fleet = fleet;
    this.#socket = join(fleet.folder, `enclave-${number}.sock`);
    this.port = port;
    /** The network between balancer and proxy; null if they are connected directly. */
    this.wire = wire;
    this.name = `replica-${number}`;
    this.program = binary("enclave-server");
    this.log = join(fleet.logs, `receipts-${number}.redb`);
  }

  get programs() {
    return [this.#enclave, this.#proxy].filter((program) => program !== null);
  }

  get enclave() {
    return this.#enclave;
  }

  get proxy() {
    return this.#proxy;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts the enclave and the proxy if they are not running. */
  begin() {
    if (!this.#enclave || this.#enclave.ended) {
      rmSync(this.#socket, { force: true });
      this.#enclave = new Program(this.program, [
        "--listen",
        `unix:${this.#socket}`,
        "--simulate-nsm",
        "--simulated-root",
        this.#fleet.seed,
        "--model",
        model,
        "--threads",
        String(this.#fleet.threads),
        ...this.#fleet.enclaveOptions,
      ]);
    }
    if (!this.#proxy || this.#proxy.ended) {
      this.#proxy = new Program(binary("host-proxy"), [
        "--enclave",
        `unix:${this.#socket}`,
        "--listen",
        `127.0.0.1:${this.port}`,
        "--receipt-log",
        this.log,
        "--source-share=100",
        "--source-rate=1073741824",
        ...(this.#fleet.page ? ["--web", this.#fleet.page] : []),
        ...this.#fleet.proxyOptions,
      ]);
    }
  }

  async ready() {
    await ready(`${this.url}/readyz`, this.programs);
  }

  /** Starts what is not running, and waits until it accepts requests. */
  async start() {
    this.begin();
    await this.ready();
  }

  /** Like a power failure of the machine. */
  async kill() {
    await Promise.all([this.killEnclave(), this.#proxy?.kill()]);
  }

  /** Kills the enclave: log entries that its host has not stored are lost. */
  async killEnclave() {
    if (this.#enclave && !this.#enclave.ended) {
      for (const log of await this.#logs()) this.#fleet.killed.add(log);
    }
    await this.#enclave?.kill();
  }

  /** Names of the running enclave's logs, without those of earlier processes. */
  async #logs() {
    const asked = request({ socketPath: this.#socket, path: "/v1/log", headers: { host: "enclave" } });
    asked.end();
    const [answer] = await once(asked, "response");
    return JSON.parse(await text(answer)).logs;
  }

  /** Drains the replica at the balancer; requests in progress finish. */
  async drain() {
    await this.#fleet.admin(`set server sealed/${this.name} state drain`);
  }

  /** Makes the balancer use it again. */
  async undrain() {
    await this.#fleet.admin(`set server sealed/${this.name} state ready`);
  }

  /** Stops both in order, the proxy first unless `first` says otherwise. */
  async stop(first = "proxy") {
    const [proxy, enclave] = [() => this.#proxy?.stop(40_000), () => this.#enclave?.stop()];
    if (first === "both") await Promise.all([proxy(), enclave()]);
    else if (first === "enclave") {
      await enclave();
      await proxy();
    } else {
      await proxy();
      await enclave();
    }
  }

  /** Drains it, replaces the enclave's program and starts it again, like an operator's release. */
  async roll(program, drainedMs) {
    await this.drain();
    await new Promise((resolve) => setTimeout(resolve, drainedMs));
    await this.stop();
    this.program = program;
    await this.start();
    await this.undrain();
  }
}

/** The whole fleet. */
export class Fleet {
  /** @type {Replica[]} */
  replicas = [];
  /** Names of logs whose enclave was killed. */
  killed = new Set();
  #balancer = null;
  #adminSocket;
  #port;

  /**
   * @param {{ replicas?: number, wires?: boolean, page?: string, logs?: string, threads?: number,
   *   enclaveOptions?: string[], proxyOptions?: string[] }} options
   *   `logs`: a folder for the logs of receipts. `wires`: networks that can be slow or cut, between balancer and proxies.
   */
  static async start(options = {}) {
    const fleet = new Fleet(options);
    try {
      await fleet.#start(options);
      return fleet;
    } catch (cause) {
      await fleet.close();
      throw cause;
    }
  }

  constructor({ page, logs, threads, replicas = 3, enclaveOptions = [], proxyOptions = [] }) {
    this.folder = mkdtempSync(join(tmpdir(), "clearseal-fleet-"));
    this.logs = logs ?? this.folder;
    this.page = page ?? null;
    this.threads = threads ?? Math.max(1, Math.floor(availableParallelism() / replicas));
    this.enclaveOptions = enclaveOptions;
    this.proxyOptions = proxyOptions;
    this.seed = join(this.folder, "root.seed");
    writeFileSync(this.seed, randomBytes(32).toString("hex"));
    this.#adminSocket = join(this.folder, "haproxy.sock");
  }

  async #start({ replicas = 3, wires = false }) {
    for (let number = 1; number <= replicas; number += 1) {
      const port = await freePort();
      const wire = wires ? new Wire(port) : null;
      await wire?.listen();
      const replica = new Replica(this, number, port, wire);
      this.replicas.push(replica);
      replica.begin();
    }
    await Promise.all(this.replicas.map((replica) => replica.ready()));
    this.#port = await freePort();
    writeFileSync(
      join(this.folder, "haproxy.cfg"),
      configuration(this.replicas.map(({ port, wire }) => wire?.port ?? port)),
    );
    await this.startBalancer();
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  get balancer() {
    return this.#balancer;
  }

  async startBalancer() {
    this.#balancer = new Program(
      process.env.CLEARSEAL_HAPROXY ?? "/usr/sbin/haproxy",
      ["-db", "-f", join(this.folder, "haproxy.cfg")],
      {
        CLEARSEAL_LISTEN: `127.0.0.1:${this.#port}`,
        CLEARSEAL_ADMIN: this.#adminSocket,
        CLEARSEAL_METRICS: `unix@${join(this.folder, "metrics.sock")}`,
      },
    );
    await ready(`${this.url}/readyz`, [this.#balancer]);
  }

  /** Sends a command to HAProxy's runtime API; returns its answer. */
  async admin(command) {
    const socket = connect(this.#adminSocket);
    await once(socket, "connect");
    socket.write(`${command}\n`);
    let answer = "";
    for await (const chunk of socket) answer += chunk;
    return answer.trim();
  }

  /** HAProxy's counters, one object per row. */
  async statistics() {
    const [head, ...rows] = (await this.admin("show stat")).replace(/^# /, "").split("\n");
    const names = head.split(",");
    return rows.map((row) => Object.fromEntries(row.split(",").map((value, index) => [names[index], value])));
  }

  /** A policy that accepts every running release, and those of `others`. */
  async policy(others = []) {
    const policies = [...others];
    for (const { url } of this.replicas) {
      const answer = await fetch(`${url}/v1/development-policy`);
      if (!answer.ok) throw new Error(`${url} has no development policy`);
      policies.push(await answer.json());
    }
    const releases = new Map();
    for (const policy of policies) {
      for (const release of policy.releases) releases.set(JSON.stringify(release.pcrs), release);
    }
    return {
      ...policies[0],
      name: "fleet",
      releases: [...releases.values()].map((release, index) => ({
        ...release,
        name: `release-${index + 1}`,
      })),
    };
  }

  /** Stops everything in order; with `keep`, the logs remain, and the caller has to remove `folder`. */
  async close({ keep = false } = {}) {
    await this.#balancer?.stop();
    await Promise.all(this.replicas.map((replica) => replica.stop()));
    for (const { wire } of this.replicas) await wire?.close();
    if (!keep) rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The measurements of `program`, from a separate short run, for a release's policy. */
export async function measured(program, fleet) {
  const port = await freePort();
  const enclave = new Program(program, [
    "--listen",
    `tcp:127.0.0.1:${port}`,
    "--simulate-nsm",
    "--simulated-root",
    fleet.seed,
    "--model",
    model,
  ]);
  try {
    await ready(`http://127.0.0.1:${port}/readyz`, [enclave]);
    return await (await fetch(`http://127.0.0.1:${port}/v1/development-policy`)).json();
  } finally {
    await enclave.stop();
  }
}
