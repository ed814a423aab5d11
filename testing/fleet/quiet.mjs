/**
 * One text a minute for a long time, through proxy, host-proxy and enclave: `node testing/fleet/quiet.mjs --minutes 45`. Meanwhile each program is
 * stopped for minutes, and the wall clocks of the enclave and of the proxy jump by a day and back (needs Debian's package
 * `faketime`; without it the clocks are left alone). CLOCK_MONOTONIC goes on.
 *
 * Prints JSON: the answers of each phase by status and code, and for each program its memory, handles and bytes of log. Exits with 1
 * if a vector is wrong, or if a call fails while nothing is disturbed.
 */

import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { binary, endWithSignals, freePort, model, Program, pause, ready, usage } from "./processes.mjs";

endWithSignals();

const { values: options } = parseArgs({
  options: {
    minutes: { type: "string", default: "45" },
    /** Seconds between two texts. */
    every: { type: "string", default: "60" },
    /** How often the enclave makes fresh keys. */
    rotate: { type: "string", default: "5m" },
  },
});
const totalMs = Number(options.minutes) * 60_000;
const everyMs = Number(options.every) * 1000;
const FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
const DAY = 86_400;
/** Calls of a client that gives up are not the subject: this is above every limit of the programs. */
const PATIENCE_MS = 400_000;

const folder = mkdtempSync(join(tmpdir(), "clearseal-quiet-"));
const socket = join(folder, "enclave.sock");
const log = join(folder, "receipts.redb");
const seed = join(folder, "root.seed");
writeFileSync(seed, randomBytes(32).toString("hex"));

/** Environment of a program whose wall clock `setClock` moves. */
function movable(name) {
  setClock(name, 0);
  if (!existsSync(FAKETIME)) return {};
  return {
    LD_PRELOAD: FAKETIME,
    FAKETIME_TIMESTAMP_FILE: join(folder, `${name}.clock`),
    FAKETIME_NO_CACHE: "1",
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
  };
}

function setClock(name, seconds) {
  writeFileSync(join(folder, `${name}.clock`), `${seconds < 0 ? "" : "+"}${seconds}\n`);
}

const hostPort = await freePort();
const proxyPort = await freePort();
const programs = {};
programs.enclave = new Program(
  binary("enclave-server"),
  [
    ...["--listen", `unix:${socket}`, "--simulate-nsm", "--simulated-root", seed],
    ...["--model", model, "--threads", "1", "--rotate-every", options.rotate],
  ],
  movable("enclave"),
);
programs.host = new Program(
  binary("host-proxy"),
  ["--enclave", `unix:${socket}`, "--listen", `127.0.0.1:${hostPort}`, "--receipt-log", log],
  movable("host"),
);

/** Phases, in parts of the whole run: from, to, name, begin, end. */
const stopped = (name) => [() => programs[name].signal("SIGSTOP"), () => programs[name].signal("SIGCONT")];
const moved = (name, seconds) => [() => setClock(name, seconds), () => setClock(name, 0)];
const PHASES = [
  [0.2, 0.267, "host-proxy stopped", ...stopped("host")],
  [0.333, 0.4, "enclave stopped", ...stopped("enclave")],
  [0.467, 0.533, "proxy stopped", ...stopped("proxy")],
  ...(existsSync(FAKETIME)
    ? [
        [0.6, 0.667, "enclave a day ahead", ...moved("enclave", DAY)],
        [0.7, 0.767, "enclave a day behind", ...moved("enclave", -DAY)],
        [0.8, 0.867, "proxy a day ahead", ...moved("proxy", DAY)],
      ]
    : []),
];

/** One text; returns its vector, or the status and code of a refusal. */
async function embed() {
  try {
    const answer = await fetch(`http://127.0.0.1:${proxyPort}/v1/embeddings`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "all-MiniLM-L6-v2", input: "one text a minute" }),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const content = await answer.json();
    if (answer.ok) return { vector: JSON.stringify(content.data[0].embedding) };
    return { failed: `${answer.status} ${content.error?.code ?? ""}`.trim() };
  } catch (cause) {
    return { failed: cause?.cause?.code ?? String(cause?.name) };
  }
}

/** MiB an hour, by least squares over the second half of the samples, when caches are full. */
function slope(samples) {
  const late = samples.slice(Math.floor(samples.length / 2));
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [hours, sizes] = [late.map(({ hour }) => hour), late.map(({ memory }) => memory)];
  const [middle, level] = [mean(hours), mean(sizes)];
  const spread = hours.reduce((sum, hour) => sum + (hour - middle) ** 2, 0);
  const joint = hours.reduce((sum, hour, index) => sum + (hour - middle) * (sizes[index] - level), 0);
  return spread === 0 ? 0 : joint / spread / 2 ** 20;
}

const answers = {};
const samples = { enclave: [], host: [], proxy: [] };
const count = (phase, result) => {
  answers[phase] ??= {};
  answers[phase][result] = (answers[phase][result] ?? 0) + 1;
};
let wrong = 0;
let failedInPeace = 0;
try {
  await ready(`http://127.0.0.1:${hostPort}/readyz`, [programs.enclave, programs.host]);
  programs.proxy = new Program(
    binary("clearseal"),
    [
      "proxy",
      "--url",
      `http://127.0.0.1:${hostPort}`,
      "--accept-simulated",
      "--listen",
      `127.0.0.1:${proxyPort}`,
    ],
    movable("proxy"),
  );
  await ready(`http://127.0.0.1:${proxyPort}/v1/models`, [programs.proxy]);

  const begun = performance.now();
  const passed = () => (performance.now() - begun) / totalMs;
  const right = (await embed()).vector;
  if (!right) throw new Error("the first text was refused");
  let active = null;
  let after = null;
  const calls = [];
  for (let due = begun + everyMs; passed() < 1; due += everyMs) {
    while (performance.now() < due) {
      const phase = PHASES.find(([from, to]) => passed() >= from && passed() < to) ?? null;
      if (phase !== active) {
        active?.[4]();
        // Until the first right answer, the end of a phase is a part of it.
        if (active) after = active[2];
        phase?.[3]();
        active = phase;
      }
      await pause(250);
    }
    const name = active ? active[2] : after ? `after ${after}` : "undisturbed";
    const sent = performance.now();
    calls.push(
      embed().then(({ vector, failed }) => {
        if (vector && vector !== right) wrong += 1;
        if (failed && name === "undisturbed") failedInPeace += 1;
        const seconds = Math.round((performance.now() - sent) / 1000);
        const result = failed ?? (vector === right ? "right" : "WRONG");
        if (result === "right" && name === `after ${after}`) after = null;
        count(name, result);
        process.stderr.write(`${passed().toFixed(3)} ${name}: ${result} after ${seconds} s\n`);
      }),
    );
    for (const [program, rows] of Object.entries(samples)) {
      const held = usage(programs[program].pid);
      if (held) rows.push({ hour: (performance.now() - begun) / 3_600_000, ...held });
    }
  }
  await Promise.all(calls);
  const report = Object.entries(samples).map(([name, rows]) => {
    const handles = rows.map((row) => row.handles);
    return {
      program: name,
      mebibytes: Math.round((rows.at(-1)?.memory ?? 0) / 2 ** 20),
      mebibytesAnHour: Number(slope(rows).toFixed(2)),
      handles: [Math.min(...handles), Math.max(...handles), handles.at(-1)],
      logBytes: programs[name].written,
    };
  });
  const machine = `${cpus()[0].model}, ${availableParallelism()} processors`;
  const run = {
    machine,
    minutes: Number(options.minutes),
    every: Number(options.every),
    rotate: options.rotate,
  };
  process.stdout.write(
    `${JSON.stringify({ ...run, wrong, failedInPeace, answers, receiptLogBytes: statSync(log).size, programs: report }, null, 2)}\n`,
  );
} finally {
  for (const name of ["proxy", "host", "enclave"]) {
    if (process.env.QUIET_LOGS) process.stderr.write(`--- ${name}\n${programs[name]?.output}\n`);
    await programs[name]?.stop();
  }
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = wrong + failedInPeace === 0 ? 0 : 1;
