/**
 * `npm run soak -- --minutes 30`: every kind of client works on a fleet while replicas are killed, restarted in order, stopped,
 * cut off and slowed down, disks fill up and a clock is changed. At the end every client still works, every acknowledged item has
 * one correct embedding and one receipt in a consistent log, except for the last receipts of killed enclaves, and latency, memory
 * and file handles are flat. Prints its measurements, as JSON with --json.
 */

import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { everyClient, progress, references } from "./clients.mjs";
import { Fleet } from "./fleet.mjs";
import { Ledger, total } from "./ledger.mjs";
import { binary, endWithSignals, pause, usage } from "./processes.mjs";
import { judgeWork, thirds } from "./verdict.mjs";

endWithSignals();

const { values: options } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    replicas: { type: "string", default: "3" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    json: { type: "boolean", default: false },
  },
});
const minutes = Number(options.minutes);
const replicas = Number(options.replicas);
if (!(minutes > 0 && minutes <= 24 * 60) || !(replicas >= 2 && replicas <= 8)) {
  process.stderr.write("--minutes takes 0.5 to 1440, --replicas 2 to 8\n");
  process.exit(2);
}

/** Interval between readings of memory, handles and times. */
const SAMPLE_MS = 5_000;
const DISK_BYTES = 24 * 1024 * 1024;
/** How far the npm client's clock is changed. A policy allows a minute, and five minutes of age. */
const CLOCK_STEP_MS = 40_000;

/** Xorshift: the same seed causes the same faults in the same order. */
function randomness(seed) {
  let state = (seed || 1) >>> 0;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

const run = promisify(execFile);
const say = (text) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`);

/** A small disk for the logs, if this user may mount one. */
function smallDisk() {
  const folder = mkdtempSync(join(tmpdir(), "clearseal-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_BYTES}`, "none", folder], { stdio: "ignore" });
    return { folder, mounted: true };
  } catch {
    return { folder, mounted: false };
  }
}

const disk = smallDisk();
const fleet = await Fleet.start({ replicas, wires: true, logs: disk.folder });
const random = randomness(Number(options.seed));
say(
  `seed ${options.seed}; ${replicas} replicas; logs on ${disk.mounted ? "a disk of 24 MiB" : "an ordinary disk"}`,
);
const policy = await fleet.policy();
const right = await references(fleet.url, policy);
const ledger = new Ledger();
let clockOffset = 0;
const common = { url: fleet.url, policy, references: right, folder: fleet.folder };
const bulkReceipts = join(fleet.folder, "bulk-receipts.jsonl");
const clients = everyClient(common, {
  npm: { note: (bundle) => ledger.add(bundle), now: () => Date.now() + clockOffset },
  bulk: { receipts: bulkReceipts },
});
await progress(clients);

/**
 * Planned stops in progress, and whether the log disk is full. An enclave cannot stop in order while its log cannot be written.
 */
let stopping = 0;
let full = false;

/** A stop that must not lose a receipt. */
function planned(stop) {
  return async (replica) => {
    while (full) await pause(100);
    stopping += 1;
    try {
      await stop(replica);
    } finally {
      stopping -= 1;
    }
  };
}

/** Faults with their repairs. Both take the replica. */
const HARMS = {
  "replica killed": [(it) => it.kill(), (it) => it.start()],
  "enclave killed": [(it) => it.killEnclave(), (it) => it.start()],
  "proxy killed": [(it) => it.proxy.kill(), (it) => it.start()],
  "replica restarted, proxy first": [planned((it) => it.stop("proxy")), (it) => it.start()],
  "replica restarted, enclave first": [planned((it) => it.stop("enclave")), (it) => it.start()],
  "replica restarted at once": [planned((it) => it.stop("both")), (it) => it.start()],
  "enclave restarted": [planned((it) => it.enclave.stop()), (it) => it.start()],
  "proxy restarted": [planned((it) => it.proxy.stop(40_000)), (it) => it.start()],
  "enclave stopped": [(it) => it.enclave.signal("SIGSTOP"), (it) => it.enclave.signal("SIGCONT")],
  "proxy stopped": [(it) => it.proxy.signal("SIGSTOP"), (it) => it.proxy.signal("SIGCONT")],
  drained: [(it) => it.drain(), (it) => it.undrain()],
  "cut off": [(it) => it.wire.cut(), (it) => it.wire.mend()],
  silent: [(it) => it.wire.silence(), (it) => it.wire.mend()],
  slow: [
    (it) => {
      it.wire.rate = 48 * 1024;
    },
    (it) => it.wire.mend(),
  ],
  "client's clock set": [
    () => {
      clockOffset = random(2) ? CLOCK_STEP_MS : -CLOCK_STEP_MS;
    },
    () => {
      clockOffset = 0;
    },
  ],
  ...(disk.mounted && {
    "disk full": [
      async () => {
        while (stopping > 0) await pause(100);
        full = true;
        const { bavail, bsize } = statfsSync(disk.folder);
        try {
          writeFileSync(join(disk.folder, "filler"), Buffer.alloc(bavail * bsize));
        } catch (cause) {
          // A log has grown since the free space was read: the disk is full all the same.
          if (cause.code !== "ENOSPC") throw cause;
        }
      },
      () => {
        rmSync(join(disk.folder, "filler"), { force: true });
        full = false;
      },
    ],
  }),
};

const samples = [];
const harmed = new Map();
const begun = Date.now();
let over = false;

async function sample() {
  const places = clients.map(({ work }) => ({ times: work.tally.times.length, right: work.tally.right }));
  while (!over) {
    await pause(SAMPLE_MS);
    const processes = { haproxy: fleet.balancer.pid };
    // The npm package runs in this process.
    for (const { name, work } of clients) processes[name] = work.programs?.[0].pid ?? process.pid;
    const entry = { at: Date.now() - begun, usage: {}, right: {}, times: {}, replicas: [] };
    for (const [name, pid] of Object.entries(processes)) entry.usage[name] = usage(pid);
    for (const { enclave, proxy } of fleet.replicas) {
      entry.replicas.push({
        enclave: { pid: enclave.pid, ...usage(enclave.pid) },
        proxy: { pid: proxy.pid, ...usage(proxy.pid) },
      });
    }
    clients.forEach(({ name, work }, index) => {
      const { times, right } = work.tally;
      entry.times[name] = times.slice(places[index].times);
      entry.right[name] = right - places[index].right;
      places[index] = { times: times.length, right };
    });
    samples.push(entry);
  }
}

/** Causes one fault after the other, each on a replica of its choice; sometimes two run concurrently. */
async function chaos(worker) {
  const names = Object.keys(HARMS);
  while (!over) {
    const name = names[random(names.length)];
    // Workers harm different replicas, so that one is always healthy.
    const replica = fleet.replicas[worker === 0 ? random(replicas - 1) : replicas - 1];
    const [harm, mend] = HARMS[name];
    const forMs = 1_000 + random(7_000);
    say(`${name}: ${replica.name}, ${(forMs / 1000).toFixed(1)} s`);
    await harm(replica);
    await pause(forMs);
    await mend(replica);
    await replica.ready();
    harmed.set(name, (harmed.get(name) ?? 0) + 1);
    await pause(2_000 + random(4_000) + worker * 8_000);
  }
}

const sampling = sample();
// The last replica is harmed only if there are more than two: at once half of the fleet, never all of it.
const workers = replicas > 2 ? [chaos(0), chaos(1)] : [chaos(0)];
const failed = Promise.all(workers).then(
  () => null,
  (cause) => cause,
);
await Promise.race([pause(minutes * 60_000), failed]);
over = true;
const broke = await failed;
await sampling;
const stuck = await progress(clients).then(
  () => null,
  (cause) => cause,
);
const tallies = await Promise.all(clients.map(({ end }) => end()));
const seconds = (Date.now() - begun) / 1000;

say("asking for every receipt's place");
// Twice the interval at which a log is read and published.
await pause(10_000);
const logs = new Set();
for (const { url } of fleet.replicas) {
  for (const { log } of (await (await fetch(`${url}/v1/log`)).json()).logs) logs.add(log);
}
for (const line of readFileSync(bulkReceipts, "utf8").trimEnd().split("\n")) ledger.add(line);
const settled = await ledger.settle(fleet.url, [...logs], fleet.killed);
const judged = await judgeSamples();
await fleet.close({ keep: true });
const checks = fleet.replicas.map(({ log }) =>
  execFileSync(binary("host-proxy"), ["log", "check", log]).toString().trim(),
);
report();

/** Verifies some receipts with the command line: attestation, receipt, inclusion, the head's signature. */
async function judgeSamples() {
  const policyFile = join(fleet.folder, "policy.json");
  let accepted = 0;
  const bundles = ledger.samples.slice(-20);
  const refused = [];
  for (const [index, bundle] of bundles.entries()) {
    const file = join(fleet.folder, `bundle-${index}.json`);
    writeFileSync(file, bundle);
    try {
      // Not synchronously: the networks between balancer and proxies run in this process.
      await run(binary("clearseal"), [
        "verify",
        "log",
        file,
        "--policy",
        policyFile,
        "--url",
        fleet.url,
        "--accept-simulated",
      ]);
      accepted += 1;
    } catch (cause) {
      const output = String(cause.stderr ?? cause);
      // The tail of a killed enclave's log never reached its host.
      const unlogged = output.includes("RECEIPT_NOT_LOGGED") || output.includes("LOG_UNKNOWN");
      if (!unlogged || total(settled.lostInKills) === 0) refused.push(output.slice(0, 500));
    }
  }
  return { accepted, of: bundles.length, refused };
}

function report() {
  const faults = [];
  // The first minute warms caches and pools, and is excluded in long runs.
  const [first, last] = thirds(samples, minutes >= 3 ? 60_000 : 0);
  const flat = {};
  for (const name of Object.keys(samples[0]?.usage ?? {})) {
    const most = (part, what) => Math.max(...part.map(({ usage }) => usage[name]?.[what] ?? 0));
    const row = {
      memoryMiB: [most(first, "memory"), most(last, "memory")].map((bytes) => Math.round(bytes / 2 ** 20)),
      handles: [most(first, "handles"), most(last, "handles")],
    };
    flat[name] = row;
    // This process holds every receipt in its ledger.
    const slack = name === "npm package" ? 96 + ledger.count / 1000 : 24;
    if (row.memoryMiB[1] > row.memoryMiB[0] * 1.25 + slack) faults.push(`${name}: memory grew`);
    if (row.handles[1] > row.handles[0] * 1.25 + 32) faults.push(`${name}: handles grew`);
  }
  const servers = {};
  for (const kind of ["enclave", "proxy"]) {
    const rows = samples.flatMap(({ replicas }) => replicas.map((replica) => replica[kind]));
    servers[kind] = {
      memoryMiB: Math.round(Math.max(...rows.map(({ memory }) => memory ?? 0)) / 2 ** 20),
      handles: Math.max(...rows.map(({ handles }) => handles ?? 0)),
    };
  }
  const work = judgeWork(clients, [first, last]);
  faults.push(...work.faults);
  if (stuck) faults.push(`after the last harm: ${stuck.message}`);
  const rows = clients.map(({ name }, index) => {
    const { right, wrong, failed, lastError } = tallies[index];
    if (wrong > 0) faults.push(`${name}: ${wrong} wrong vectors`);
    for (const code of ["EXIT_1", "EXIT_2", "BROKE_OFF", "OUT_OF_ORDER", "ROWS_MISSING"]) {
      if (failed.has(code)) faults.push(`${name}: ${code} ${lastError ?? ""}`);
    }
    return { client: name, right, wrong, failed: Object.fromEntries(failed) };
  });
  if (settled.wrong.length > 0) faults.push(`${settled.wrong.length} proofs of inclusion are wrong`);
  for (const [log, count] of settled.lost) {
    faults.push(`${count} receipts are in no log, and their enclave was not killed: ${log}`);
  }
  if (judged.refused.length > 0) faults.push(`the terminal refuses receipts: ${judged.refused[0]}`);
  if (broke) faults.push(`the run broke off: ${broke.stack ?? broke}`);
  const result = {
    seed: Number(options.seed),
    seconds: Math.round(seconds),
    replicas,
    harmed: Object.fromEntries([...harmed].sort()),
    clients: rows,
    receipts: {
      acknowledged: ledger.count,
      logged: settled.logged,
      lost: total(settled.lost),
      lostWithKilledEnclaves: total(settled.lostInKills),
      wrong: settled.wrong.length,
      judgedByTheTerminal: `${judged.accepted} of ${judged.of}`,
    },
    logs: checks.map((line) => line.replace(/^.*: /, "")),
    latencyMs: work.latency,
    firstAndLastThird: flat,
    serversMost: servers,
    faults,
  };
  process.stdout.write(`${JSON.stringify(result, null, options.json ? 0 : 2)}\n`);
  if (disk.mounted) execFileSync("umount", [disk.folder]);
  rmSync(disk.folder, { recursive: true, force: true });
  rmSync(fleet.folder, { recursive: true, force: true });
  process.exitCode = faults.length > 0 ? 1 : 0;
}
