/**
 * Measures texts per second through 1, 2 and 4 replicas on this machine, and each process's cost per request: `node
 * testing/fleet/throughput.mjs`. docs/SCALE.md interprets the figures. Prints JSON.
 */

import { readFileSync, statSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { parseArgs } from "node:util";
import { npmClient, progress, references, TEXTS, terminalClient } from "./clients.mjs";
import { Fleet } from "./fleet.mjs";
import { endWithSignals, pause } from "./processes.mjs";

endWithSignals();

const { values: options } = parseArgs({
  options: { seconds: { type: "string", default: "15" }, replicas: { type: "string", default: "1,2,4" } },
});
const forMs = Number(options.seconds) * 1000;
/** Clock ticks per second (sysconf(_SC_CLK_TCK)), a constant of Linux's interface. */
const TICKS = 100;

/** Processor milliseconds that a process has used. */
function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return ((Number(fields[11]) + Number(fields[12])) / TICKS) * 1000;
}

function cpuMsByKind(fleet) {
  const sum = (pids) => pids.reduce((total, pid) => total + cpuMs(pid), 0);
  return {
    balancer: cpuMs(fleet.balancer.pid),
    proxies: sum(fleet.replicas.map(({ proxy }) => proxy.pid)),
    enclaves: sum(fleet.replicas.map(({ enclave }) => enclave.pid)),
  };
}

/** Processor time of `work` by kind of process: microseconds per unit of its result. */
async function cost(fleet, work) {
  const before = cpuMsByKind(fleet);
  const begun = performance.now();
  const count = await work();
  const seconds = (performance.now() - begun) / 1000;
  const after = cpuMsByKind(fleet);
  const each = Object.fromEntries(
    Object.entries(after).map(([name, ms]) => [name, Math.round(((ms - before[name]) / count) * 1000)]),
  );
  return { count, perSecond: Math.round((count / seconds) * 10) / 10, microsecondsEach: each };
}

/** Counts correct results of the clients over a time. */
async function rights(clients) {
  const total = () => clients.reduce((sum, { work }) => sum + work.tally.right, 0);
  const before = total();
  await pause(forMs);
  return total() - before;
}

async function attestations(fleet) {
  let count = 0;
  const deadline = performance.now() + forMs / 2;
  const worker = async (number) => {
    const nonce = Buffer.alloc(32, number + 1).toString("base64url");
    while (performance.now() < deadline) {
      const answer = await fetch(`${fleet.url}/v1/attestation?nonce=${nonce}`);
      await answer.arrayBuffer();
      if (answer.ok) count += 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, number) => worker(number)));
  return count;
}

const results = {
  machine: `${cpus()[0].model}, ${availableParallelism()} processors`,
  seconds: forMs / 1000,
  texts: {},
};
for (const replicas of options.replicas.split(",").map(Number)) {
  const fleet = await Fleet.start({ replicas, threads: 1 });
  try {
    const policy = await fleet.policy();
    const right = await references(fleet.url, policy);
    const common = { url: fleet.url, policy, references: right, folder: fleet.folder };
    // Two channels per replica, so that each has work.
    const bulk = [];
    for (let number = 0; number < 2 * replicas; number += 1) {
      bulk.push(terminalClient(common, { bulk: true }));
      // Documents are given out in turn, so that all replicas get equally many.
      await progress(bulk.slice(-1), 1);
    }
    results.texts[replicas] = await cost(fleet, () => rights(bulk));
    await Promise.all(bulk.map(({ end }) => end()));
    if (replicas === 1) {
      const single = [npmClient(common, { concurrency: 8 })];
      await progress(single);
      const stored = () => statSync(fleet.replicas[0].log).size;
      const before = stored();
      results.requestsOfOneText = await cost(fleet, () => rights(single));
      results.requestsOfOneText.logBytesEach = Math.round(
        (stored() - before) / results.requestsOfOneText.count,
      );
      for (const { end } of single) await end();
      results.documents = await cost(fleet, () => attestations(fleet));
    }
  } finally {
    await fleet.close();
  }
}
results.charactersOfAText = Math.round(TEXTS.join("").length / TEXTS.length);
process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);
