import {
  type AuditAppraisal,
  type AuditIntake,
  Auditor,
  buildInfo,
  initialise,
  type Problem,
  verifyVector,
} from "@clearseal/verifier";
import { messageOf } from "../../ui/cause";
import { fetchModule } from "../../verifier/module";
import type { Answer, Found, Question, Reply, Request, Source } from "./messages";

declare const self: DedicatedWorkerGlobalScope;

/** Files up to this size are parsed at once. Longer ones must be lists, which are read in pieces cut between lines. */
const WHOLE_BYTES = 32 * 1024 * 1024;
const PIECE_BYTES = 2 * 1024 * 1024;

/** Interval at which the worker processes messages, so that a newer audit can replace the current one. */
const SLICE_MS = 40;

const NEWLINE = 10;

let auditor: Auditor | null = null;
let current = 0;

const ready = fetchModule()
  .then(initialise)
  .then(() => post({ kind: "ready", builtIn: buildInfo().policy }));
ready.catch(stop);

self.onmessage = ({ data }: MessageEvent<Request>) => {
  answer(data).catch(stop);
};

async function answer(request: Request): Promise<void> {
  if (request.kind === "ping") {
    post({ kind: "pong" });
    return;
  }
  if (request.kind === "audit") current = request.attempt;
  await ready;
  switch (request.kind) {
    case "audit":
      await audit(request);
      break;
    case "detail":
      post({ kind: "detail", id: request.id, appraisal: detail(request) });
      break;
    case "log":
      post({
        kind: "logged",
        id: request.id,
        report:
          auditor?.inLog(
            request.index,
            request.inclusion,
            request.earlier?.inclusion,
            request.earlier?.consistency,
          ) ?? null,
      });
      break;
    case "vector": {
      const { id, row, proof, policy, serverPolicy } = request;
      post({ kind: "proven", id, appraisal: verifyVector(row, proof, policy, serverPolicy) });
      break;
    }
    case "open":
      post({ kind: "opened", id: request.id, answer: open(request.question) });
  }
}

/** Null if another audit has started since: an index is valid only within its audit. */
function detail({ attempt, index }: Extract<Request, { kind: "detail" }>): AuditAppraisal | null {
  return attempt === current ? (auditor?.judge(index) ?? null) : null;
}

async function audit(request: Extract<Request, { kind: "audit" }>): Promise<void> {
  const { attempt, sources, policy, serverPolicy } = request;
  const began = performance.now();
  auditor?.free();
  auditor = null;
  // Not shared until it is complete: a newer audit may start at any pause.
  const mine = new Auditor(policy, serverPolicy);
  const found = await read(mine, attempt, sources);
  if (!found) {
    mine.free();
    return;
  }
  auditor = mine;
  post({ kind: "found", attempt, found });
  let since = performance.now();
  let summaries = [];
  for (let index = 0; index < found.total; index += 1) {
    const summary = mine.summary(index);
    if (summary) summaries.push(summary);
    if (performance.now() - since < SLICE_MS) continue;
    post({ kind: "summaries", attempt, summaries });
    summaries = [];
    await pause();
    if (attempt !== current) return;
    since = performance.now();
  }
  post({ kind: "summaries", attempt, summaries });
  post({ kind: "judged", attempt, tookMs: performance.now() - began });
}

/** Null if a newer audit has started, or if a source cannot be read. */
async function read(into: Auditor, attempt: number, sources: readonly Source[]): Promise<Found | null> {
  let found: Found = { total: 0, policy: null, key: null, encoding: null };
  const keep = ({ total, policy, key, encoding }: AuditIntake) => {
    found = {
      total,
      policy: policy ?? found.policy,
      key: key ?? found.key,
      encoding: found.encoding ?? encoding,
    };
  };
  for (const { name, blob } of sources) {
    try {
      if (blob.size <= WHOLE_BYTES) keep(into.add(new Uint8Array(await blob.arrayBuffer())));
      else {
        for await (const { bytes, linesBefore } of pieces(blob)) {
          keep(into.addLines(bytes, linesBefore));
          if (attempt !== current) return null;
        }
      }
    } catch (cause) {
      if (cause instanceof WebAssembly.RuntimeError) throw cause;
      post({ kind: "unreadable", attempt, problem: unreadable(name, cause) });
      return null;
    }
    if (attempt !== current) return null;
  }
  return found;
}

/** Splits a long file into pieces that end with a line. A line longer than a piece stays whole, so that its error names it. */
async function* pieces(blob: Blob): AsyncGenerator<{ bytes: Uint8Array; linesBefore: number }> {
  let rest = new Uint8Array(0);
  let linesBefore = 0;
  for (let at = 0; at < blob.size; at += PIECE_BYTES) {
    const next = new Uint8Array(await blob.slice(at, at + PIECE_BYTES).arrayBuffer());
    const last = at + PIECE_BYTES >= blob.size;
    const end = last ? next.length : next.lastIndexOf(NEWLINE) + 1;
    const joined = new Uint8Array(rest.length + end);
    joined.set(rest);
    joined.set(next.subarray(0, end), rest.length);
    if (end === 0 && !last) {
      const longer = new Uint8Array(rest.length + next.length);
      longer.set(rest);
      longer.set(next, rest.length);
      if (longer.length > WHOLE_BYTES) throw new Error(`line ${linesBefore + 1} is longer than any receipt`);
      rest = longer;
      continue;
    }
    yield { bytes: joined, linesBefore };
    linesBefore += joined.reduce((lines, byte) => lines + (byte === NEWLINE ? 1 : 0), 0);
    rest = next.slice(end);
  }
}

function open({ index, salt, requests, response }: Question): Answer {
  let request: Answer["request"] = null;
  for (const [which, body] of requests.entries()) {
    const madeAtMs = auditor?.opensRequest(index, salt, body);
    if (madeAtMs === undefined) continue;
    request = { which, madeAtMs };
    break;
  }
  return { request, response: auditor?.opensResponse(index, salt, response) ?? false };
}

function unreadable(name: string, cause: unknown): Problem {
  return {
    code: "SOURCE_UNREADABLE",
    title: `${name} cannot be read`,
    detail: `Reading it failed: ${messageOf(cause)}.`,
    remedy: "Add it again, or audit it with the command clearseal verify receipt.",
  };
}

/** After a trap, the state of the wasm memory is undefined: this worker must not be used again. */
function stop(cause: unknown): void {
  post({
    kind: "lost",
    problem: {
      code: "VERIFIER_STOPPED",
      title: "The verifier stopped",
      detail: `It failed: ${messageOf(cause)}.`,
      remedy: "Check again, which starts a new worker.",
    },
  });
  self.close();
}

/** Yields to pending messages. Unlike a timer, a port is not throttled. */
function pause(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

function post(reply: Reply): void {
  self.postMessage(reply);
}
