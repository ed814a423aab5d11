/** Clients of every kind that work until stopped; each checks every embedding that it receives. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect } from "../../verifier-wasm/dist/index.js";
import { binary, freePort, Program, pause, ready, root } from "./processes.mjs";

/** As the engine guarantees: an embedding depends only on its text. */
export const TEXTS = Array.from({ length: 64 }, (_, index) => {
  const words = [
    "rates",
    "cats",
    "a letter of credit",
    "photosynthesis",
    "überraschend",
    "東京",
    "the appeal court",
    "salt",
  ];
  return `${index}: ${words[index % 8]} and ${words[(index * 5 + 3) % 8]}`.repeat(1 + (index % 4));
});

const MODEL = "all-MiniLM-L6-v2";

/** Counters of a client. */
export class Tally {
  right = 0;
  /** Embeddings that differ from the reference. */
  wrong = 0;
  /** Error codes and their counts. */
  failed = new Map();
  /** Durations of requests in milliseconds, if they are timed. */
  times = [];

  fail(code) {
    this.failed.set(code, (this.failed.get(code) ?? 0) + 1);
  }

  get failures() {
    return [...this.failed.values()].reduce((sum, count) => sum + count, 0);
  }
}

/** The bytes of an embedding, for comparison. */
const bytesOf = (vector) => Buffer.from(new Float32Array(vector).buffer).toString("base64");

/** Reference embeddings of each text, requested while nothing else runs. */
export async function references(url, policy) {
  const connection = await connect(url, { policy: JSON.stringify(policy), allowSimulated: true });
  if (!("session" in connection)) throw new Error(`the fleet is refused: ${JSON.stringify(connection)}`);
  const answer = await embedOver(connection.session, TEXTS);
  connection.session.close();
  return answer.map(({ embedding }) => embedding);
}

async function embedOver(session, input) {
  const answer = await session.fetch("/v1/embeddings", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: MODEL, input, encoding_format: "base64" }),
  });
  const body = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(body.error?.message), { code: body.error?.code });
  return body.data;
}

/** A client's settings and state. */
class Work {
  constructor({ url, policy, references, folder }) {
    this.url = url;
    this.policy = JSON.stringify(policy);
    this.references = references;
    this.folder = folder;
    this.tally = new Tally();
    this.over = false;
  }

  /** Compares the result for text `number`; both are base64 of float32. */
  judge(number, embedding) {
    if (embedding === this.references[number % TEXTS.length]) this.tally.right += 1;
    else this.tally.wrong += 1;
  }

  async timed(what) {
    const begun = performance.now();
    try {
      await what();
      this.tally.times.push(performance.now() - begun);
    } catch (cause) {
      this.tally.fail(cause.code ?? cause.name ?? "UNKNOWN");
      await pause(50);
    }
  }
}

/** The npm package with `concurrency` concurrent requests; `note` receives the audit bundle of every answer. */
export function npmClient(options, { concurrency = 2, note = null, now = Date.now } = {}) {
  const work = new Work(options);
  const run = (async () => {
    const connection = await connect(work.url, { policy: work.policy, allowSimulated: true, now });
    if (!("session" in connection)) throw new Error(`refused: ${JSON.stringify(connection)}`);
    const { session } = connection;
    const worker = async (first) => {
      for (let number = first; !work.over; number += concurrency) {
        await work.timed(async () => {
          const text = TEXTS[number % TEXTS.length];
          const result = await session.exchange({
            method: "POST",
            path: "/v1/embeddings",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ model: MODEL, input: text, encoding_format: "base64" }),
          });
          if (result.status === "unreachable") throw Object.assign(new Error(), result.problem);
          if (result.status !== "answered") throw Object.assign(new Error(), { code: result.code });
          if (result.response.status !== 200) {
            throw Object.assign(new Error(), { code: `HTTP_${result.response.status}` });
          }
          const { data } = JSON.parse(new TextDecoder().decode(result.response.body));
          work.judge(number, data[0].embedding);
          note?.(result.bundle);
        });
      }
    };
    await Promise.all(Array.from({ length: concurrency }, (_, first) => worker(first)));
    session.close();
  })();
  return { name: "npm package", timed: true, work, end: finish(work, run) };
}

/** `clearseal proxy`, with plain requests to it. */
function proxyClient(options, { concurrency = 2 } = {}) {
  const work = new Work(options);
  const run = (async () => {
    const policy = join(work.folder, "policy.json");
    writeFileSync(policy, work.policy);
    const port = await freePort();
    const proxy = new Program(binary("clearseal"), [
      "proxy",
      "--url",
      work.url,
      "--policy",
      policy,
      "--accept-simulated",
      "--listen",
      `127.0.0.1:${port}`,
    ]);
    work.programs = [proxy];
    try {
      await ready(`http://127.0.0.1:${port}/healthz`, [proxy]);
      const worker = async (first) => {
        for (let number = first; !work.over; number += concurrency) {
          await work.timed(async () => {
            const answer = await fetch(`http://127.0.0.1:${port}/v1/embeddings`, {
              method: "POST",
              headers: { "content-type": "application/json" },
              body: JSON.stringify({
                model: MODEL,
                input: TEXTS[number % TEXTS.length],
                encoding_format: "base64",
              }),
            });
            const body = await answer.json();
            if (!answer.ok) throw Object.assign(new Error(), { code: body.error?.code ?? answer.status });
            work.judge(number, body.data[0].embedding);
          });
        }
      };
      await Promise.all(Array.from({ length: concurrency }, (_, first) => worker(first)));
    } finally {
      await proxy.stop();
    }
  })();
  return { name: "clearseal proxy", timed: true, work, end: finish(work, run) };
}

/** `clearseal embed`, lines in and rows out: one row per line, in order. */
export function terminalClient(options, { bulk, receipts = null }) {
  const work = new Work(options);
  const ahead = 256;
  const run = (async () => {
    const policy = join(work.folder, `policy-${bulk ? "bulk" : "plain"}.json`);
    writeFileSync(policy, work.policy);
    const program = new Program(binary("clearseal"), [
      "embed",
      "--url",
      work.url,
      "--policy",
      policy,
      "--accept-simulated",
      "--batch",
      "8",
      "--fields",
      "index,embedding",
      ...(bulk ? ["--bulk"] : []),
      ...(receipts ? ["--receipts", receipts] : []),
    ]);
    work.programs = [program];
    let sent = 0;
    let received = 0;
    const feed = (async () => {
      while (!work.over && !program.ended) {
        while (sent < received + ahead) {
          program.stdin.write(`${TEXTS[sent % TEXTS.length]}\n`);
          sent += 1;
        }
        await pause(10);
      }
      program.stdin.end();
    })();
    for await (const line of createInterface({ input: program.stdout })) {
      const { index, embedding } = JSON.parse(line);
      if (index !== received) work.tally.fail("OUT_OF_ORDER");
      work.judge(index, bytesOf(embedding));
      received += 1;
    }
    const status = await program.exit();
    await feed;
    if (status !== 0) {
      work.tally.fail(`EXIT_${status}`);
      work.tally.lastError = program.output.slice(-2000);
    } else if (received !== sent) work.tally.fail("ROWS_MISSING");
  })();
  const name = bulk ? "clearseal embed --bulk" : "clearseal embed";
  return { name, timed: false, work, end: finish(work, run) };
}

/** Python with the package `clearseal`, which is built separately; the task runner passes its path. */
const python = process.env.CLEARSEAL_PYTHON;

/** The Python package with `concurrency` concurrent requests. */
function pythonClient(options, { concurrency = 2 } = {}) {
  const work = new Work(options);
  const run = (async () => {
    const [policy, texts] = [join(work.folder, "policy-python.json"), join(work.folder, "texts.json")];
    writeFileSync(policy, work.policy);
    writeFileSync(texts, JSON.stringify(TEXTS));
    const script = join(root, "testing/fleet/client.py");
    const program = new Program(python, ["-B", script, work.url, policy, texts, String(concurrency)]);
    work.programs = [program];
    work.stop = () => program.stdin.end();
    for await (const line of createInterface({ input: program.stdout })) {
      const { number, embedding, ms, failed } = JSON.parse(line);
      if (failed !== undefined) work.tally.fail(failed);
      else {
        work.judge(number, embedding);
        work.tally.times.push(ms);
      }
    }
    const status = await program.exit();
    if (status !== 0) {
      work.tally.fail(`EXIT_${status}`);
      work.tally.lastError = program.output.slice(-2000);
    }
  })();
  return { name: "Python package", timed: true, work, end: finish(work, run) };
}

/** One client of every kind; Python only if its package is available. `npm` and `bulk` are options of these two. */
export function everyClient(options, { npm = {}, bulk = {} } = {}) {
  return [
    npmClient(options, npm),
    proxyClient(options),
    terminalClient(options, { bulk: false }),
    terminalClient(options, { bulk: true, ...bulk }),
    ...(python ? [pythonClient(options)] : []),
  ];
}

/** Ends the work and waits for it; an aborted run is a failure. */
function finish(work, run) {
  const ended = run.catch((cause) => {
    work.tally.fail("BROKE_OFF");
    work.tally.lastError = String(cause?.stack ?? cause);
  });
  return async () => {
    work.over = true;
    work.stop?.();
    await ended;
    return work.tally;
  };
}

/** Waits until each of `clients` has received `more` further correct embeddings. */
export async function progress(clients, more = 16, patienceMs = 60_000) {
  const before = clients.map(({ work }) => work.tally.right);
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const stuck = clients.filter(({ work }, index) => work.tally.right < before[index] + more);
    if (stuck.length === 0) return;
    if (Date.now() > deadline) {
      const names = stuck.map(({ name, work }) => `${name} (${JSON.stringify([...work.tally.failed])})`);
      throw new Error(`no progress: ${names.join(", ")}`);
    }
    await pause(50);
  }
}
