/**
 * Very many lines over a channel that is cut repeatedly: `npm run endurance -- --items 1000000 --cut-every 1`, or as many as
 * `--minutes 60` allow.
 *
 * Checks that the output has one embedding per line, in order, each equal to that of an undisturbed run, and reports the memory
 * of every process by the minute. Prints JSON; exits with 1 if a row is missing or wrong.
 */

import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { Fleet } from "./fleet.mjs";
import { binary, endWithSignals, mebibytes, Program } from "./processes.mjs";
import { Wire } from "./wire.mjs";

endWithSignals();

const { values: options } = parseArgs({
  options: {
    items: { type: "string", default: "1000000" },
    /** Used instead of a number of items. */
    minutes: { type: "string" },
    /** Seconds between cuts; 0: none. */
    "cut-every": { type: "string", default: "1" },
    threads: { type: "string", default: String(availableParallelism()) },
  },
});
const items = options.minutes ? Number.POSITIVE_INFINITY : Number(options.items);
const forMs = options.minutes ? Number(options.minutes) * 60_000 : Number.POSITIVE_INFINITY;
const cutEveryMs = Number(options["cut-every"]) * 1000;

/** Distinct short lines of several lengths. */
const LINES = Array.from({ length: 64 }, (_, index) => `${index} ${"salt ".repeat(index % 5)}`.trim());

/** Embeds `count` lines, or lines for `forMs` milliseconds; passes rows on as they arrive, and returns the number of lines. */
async function embed({ url, policy, count, forMs, started, take }) {
  const service = ["--url", url, "--policy", policy, "--accept-simulated"];
  const job = ["--bulk", "--batch", "64", "--fields", "embedding"];
  const program = new Program(binary("clearseal"), ["embed", ...service, ...job]);
  started(program);
  const end = performance.now() + forMs;
  const ended = program.exit();
  const feed = (async () => {
    let line = 0;
    while (line < count && performance.now() < end && !program.ended) {
      const lines = [];
      for (const last = Math.min(count, line + 1024); line < last; line += 1) {
        lines.push(LINES[line % LINES.length]);
      }
      if (!program.stdin.write(`${lines.join("\n")}\n`)) {
        await Promise.race([once(program.stdin, "drain"), ended]);
      }
    }
    program.stdin.end();
    return line;
  })();
  for await (const line of createInterface({ input: program.stdout })) take(line);
  const status = await ended;
  const fed = await feed;
  if (status !== 0) throw new Error(`clearseal embed ended with ${status}: ${program.output.slice(-2000)}`);
  return fed;
}

const fleet = await Fleet.start({ replicas: 1, threads: Number(options.threads) });
const [{ enclave, proxy, port }] = fleet.replicas;
const wire = new Wire(port);
let bad = 0;
try {
  const policy = join(fleet.folder, "policy.json");
  writeFileSync(policy, JSON.stringify(await fleet.policy()));
  const right = [];
  const calm = { url: `http://127.0.0.1:${port}`, count: LINES.length, forMs: 60_000, started: () => {} };
  await embed({ ...calm, policy, take: (row) => right.push(row) });

  const url = `http://127.0.0.1:${await wire.listen()}`;
  const begun = performance.now();
  const memory = [];
  let rows = 0;
  let wrong = 0;
  let cuts = 0;
  let client = null;
  const sample = () => {
    const held = { enclave: enclave.pid, proxy: proxy.pid, client: client?.pid };
    const resident = Object.entries(held).map(([name, pid]) => [name, mebibytes(pid)]);
    const minute = Math.round((performance.now() - begun) / 60_000);
    memory.push({ minute, rows, wrong, cuts, ...Object.fromEntries(resident) });
    process.stderr.write(`${JSON.stringify(memory.at(-1))}\n`);
  };
  const timers = [setInterval(sample, 60_000)];
  if (cutEveryMs > 0) {
    const cut = () => {
      wire.cut();
      wire.mend();
      cuts += 1;
    };
    timers.push(setInterval(cut, cutEveryMs));
  }
  const take = (row) => {
    if (row !== right[rows % LINES.length]) wrong += 1;
    rows += 1;
  };
  const started = (program) => {
    client = program;
  };
  let failed = null;
  let fed = 0;
  try {
    fed = await embed({ url, policy, count: items, forMs, started, take });
  } catch (cause) {
    failed = String(cause);
  }
  for (const timer of timers) clearInterval(timer);
  const seconds = (performance.now() - begun) / 1000;
  bad = failed === null ? Math.abs(fed - rows) + wrong : 1;
  const report = {
    machine: `${cpus()[0].model}, ${availableParallelism()} processors`,
    items: fed,
    rows,
    wrong,
    cuts,
    failed,
    seconds: Math.round(seconds),
    perSecond: Math.round(rows / seconds),
    mebibytes: memory,
  };
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
} finally {
  await wire.close();
  await fleet.close();
}
process.exitCode = bad === 0 ? 0 : 1;
