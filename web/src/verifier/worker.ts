import type { Problem, Session, StreamedBatch } from "@clearseal/verifier";
import {
  buildInfo,
  bundleWithContent,
  bundleWithSalt,
  connect,
  initialise,
  judge,
  questions,
  StreamError,
} from "@clearseal/verifier";
import { originOf } from "../features/policy/origin";
import { messageOf } from "../ui/cause";
import type {
  Calls,
  Connected,
  Exchanged,
  Flipped,
  Reply,
  Request,
  SealedRequest,
  Streamed,
  StreamedPart,
  Trust,
} from "./messages";
import { otherModel } from "./model";

declare const self: DedicatedWorkerGlobalScope;

interface Kept {
  readonly bundle: string;
  readonly withSalt: () => string;
  /** `response`: what the page has of a streamed exchange. */
  readonly withContent: (response: Uint8Array | null) => string;
}

/** The open session, and the policy that it was judged by. */
interface Present {
  readonly session: Session;
  readonly policy: string | null;
  /** Ends all that is under way under this policy: over this session, and still over those that it replaced. */
  readonly over: AbortController;
}

let present: Present | null = null;
let announced: Session["report"] | null = null;
let attempt = 0;
// The page keeps numbers for longer than a worker lives: none may mean another exchange in the next one.
let exchanges = randomNumber() * 2 ** 20;
const kept = new Map<number, Kept>();
const running = new Map<number, AbortController>();

const ready = initialise().then(() =>
  post({ kind: "ready", questions: questions(), builtIn: buildInfo().policy }),
);
ready.catch((cause: unknown) => lose(cause));

// A trap inside an asynchronous call of the module reaches no promise that anybody waits for.
self.addEventListener("error", ({ error }) => loseIfTrapped(error));
self.addEventListener("unhandledrejection", ({ reason }) => loseIfTrapped(reason));

self.onmessage = ({ data }: MessageEvent<Request>) => {
  switch (data.kind) {
    case "ping":
      post({ kind: "pong" });
      break;
    case "abort":
      running.get(data.id)?.abort();
      break;
    case "call":
      void serve(data);
  }
};

async function serve(request: Extract<Request, { kind: "call" }>): Promise<void> {
  const { id } = request;
  const controller = new AbortController();
  running.set(id, controller);
  try {
    await ready;
    const output = await answer(request, controller.signal);
    post({ kind: "done", id, output }, transferables(output));
    announceNewTrust();
  } catch (cause) {
    if (!loseIfTrapped(cause)) post({ kind: "failed", id, problem: problemOf(cause) });
  } finally {
    running.delete(id);
  }
}

function answer(
  request: Extract<Request, { kind: "call" }>,
  signal: AbortSignal,
): Promise<Calls[keyof Calls]["output"]> | Calls[keyof Calls]["output"] {
  switch (request.call) {
    case "connect":
      return open(request.input, signal);
    case "exchange":
      return exchange(request.input, signal);
    case "bundle": {
      const entry = kept.get(request.input.exchange);
      if (!entry) throw new Error("this receipt was let go when a newer batch began");
      return disclosed(entry, request.input);
    }
    case "stream":
      return streamed(request.id, request.input, signal);
    case "forget":
      kept.clear();
      return null;
    case "flip":
      return flip(request.input);
  }
}

function disclosed(entry: Kept, { disclose, response }: Calls["bundle"]["input"]): string {
  switch (disclose) {
    case "hashes":
      return entry.bundle;
    case "salt":
      return entry.withSalt();
    case "content":
      return entry.withContent(response);
  }
}

async function open({ url, policy }: Calls["connect"]["input"], signal: AbortSignal): Promise<Connected> {
  attempt += 1;
  const mine = attempt;
  // What was found under one policy says nothing under another: not even while that one judges is anything sent.
  if (present && present.policy !== policy) letGo(present);
  const connection = await connect(url, {
    signal,
    ...(policy !== null && { policy }),
    // A page that has a policy built in is for production, whatever its user chose instead of that.
    allowSimulated: buildInfo().policy === null,
  });
  const opened = "session" in connection ? connection.session : null;
  const overtaken = mine !== attempt || signal.aborted;
  if (overtaken) {
    opened?.close();
    throw new DOMException("A newer check has begun.", "AbortError");
  }
  const before = present;
  if (opened) {
    before?.session.close();
    present = { session: opened, policy, over: before?.over ?? new AbortController() };
  } else if (before) letGo(before);
  switch (connection.status) {
    case "trusted":
    case "simulated": {
      const trust = trustOf(connection.session);
      announced = trust.report;
      return { status: connection.status, trust };
    }
    case "refused":
      return { status: "refused", report: connection.report, evidence: connection.evidence };
    case "unreachable":
      return { status: "unreachable", problem: connection.problem };
  }
}

/** Ends a session. A channel outlives the keys that it was opened with, and so does a request on its way: both are ended too. */
function letGo(used: Present): void {
  // A session that came after this one is not to blame.
  if (present !== used) return;
  present = null;
  used.over.abort();
  used.session.close();
}

async function exchange(request: SealedRequest, signal: AbortSignal): Promise<Exchanged> {
  const used = present;
  if (!used) return NO_SESSION;
  const { over } = used;
  const result = await used.session.exchange(request, { signal: AbortSignal.any([signal, over.signal]) });
  // Another policy is in force, and this enclave was not judged by it.
  if (over.signal.aborted && !signal.aborted) return JUDGED_ANEW;
  switch (result.status) {
    case "answered": {
      exchanges += 1;
      if (result.receipt) {
        kept.set(exchanges, {
          bundle: result.bundle,
          withSalt: result.bundleWithSalt,
          withContent: result.bundleWithContent,
        });
      }
      return {
        status: "answered",
        exchange: exchanges,
        response: result.response,
        receipt: result.receipt,
        origin: originOf(used.session.report),
      };
    }
    case "refused": {
      if (result.report) letGo(used);
      const problem = {
        code: result.code,
        title: "The answer was refused",
        detail: result.message,
        remedy: result.remedy,
      };
      return { status: "refused", problem, report: result.report };
    }
    case "key-unknown":
      return {
        status: "unreachable",
        problem: {
          code: "KEY_UNKNOWN",
          title: "The enclave no longer holds this key",
          detail: "The enclave was restarted or replaced between two requests.",
          remedy: "Verify again, then send again.",
        },
      };
    case "unreachable":
      return { status: "unreachable", problem: result.problem };
  }
}

/** Sends texts over a channel. Where the session was replaced meanwhile, the rest goes through the one that there is now. */
async function streamed(
  id: number,
  { texts, model }: Calls["stream"]["input"],
  signal: AbortSignal,
): Promise<Streamed> {
  let done = 0;
  for (;;) {
    const used = present;
    if (!used) return NO_SESSION;
    const { session, over } = used;
    // A stream names the model of its session, whichever the vectors so far are of.
    const other = otherModel(model, session.report.manifest?.modelId);
    if (other) return { status: "unreachable", problem: other };
    const before = done;
    try {
      const ends = AbortSignal.any([signal, over.signal]);
      for await (const batch of session.stream(texts.slice(before), { signal: ends })) {
        const part = partOf(batch, before, session);
        post({ kind: "part", id, part }, part.status === "embedded" ? [part.response.buffer] : []);
        done = part.first + part.count;
        announceNewTrust();
      }
      return { status: "done" };
    } catch (cause) {
      if (!(cause instanceof StreamError)) throw cause;
      if (over.signal.aborted && !signal.aborted) return JUDGED_ANEW;
      const replaced = present !== null && present !== used;
      if (cause.code === "SESSION_CLOSED" && replaced && !signal.aborted) continue;
      if (cause.report) letGo(used);
      const { code, remedy, transient, report } = cause;
      const detail = sentence(cause.message);
      const title = transient ? "The connection came to nothing" : "The channel was refused";
      const status = transient || code === "ABORTED" || code === "SESSION_CLOSED" ? "unreachable" : "refused";
      return { status, problem: { code, title, detail, remedy }, report };
    }
  }
}

/** Messages of the module are clauses. */
function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

function partOf(batch: StreamedBatch, before: number, used: Session): StreamedPart {
  const first = before + batch.first;
  if (batch.status === "rejected") {
    const { count, httpStatus, code, detail } = batch;
    const title = "The enclave could not embed this";
    const remedy = httpStatus < 500 ? "Change the text, then embed again." : "Try again.";
    return { status: "rejected", first, count, httpStatus, problem: { code, title, detail, remedy } };
  }
  exchanges += 1;
  const { bundle, request, receipt, count, dimension, values, tokens, truncated, response } = batch;
  const withContent = (whole: Uint8Array | null) =>
    whole ? bundleWithContent(bundle, request, whole) : bundle;
  kept.set(exchanges, { bundle, withSalt: () => bundleWithSalt(bundle, request), withContent });
  const vectors = { dimension, values, tokens, truncated, response };
  const origin = originOf(used.report);
  return { status: "embedded", exchange: exchanges, first, count, ...vectors, receipt, origin };
}

const NO_SESSION = {
  status: "unreachable",
  problem: {
    code: "NO_SESSION",
    title: "There is no open seal",
    detail: "The enclave has not been verified in this tab, so nothing was sent.",
    remedy: "Verify the enclave, then send again.",
  },
} as const;

const JUDGED_ANEW = {
  status: "unreachable",
  problem: {
    code: "JUDGED_ANEW",
    title: "The enclave is being judged anew",
    detail: "Nothing more was sent under the earlier appraisal.",
    remedy: "Send the rest once the enclave is verified again.",
  },
} as const;

/** Changes one bit in the middle of the evidence and judges that, to show that a change does not pass. */
function flip({ evidence, policy, atMs }: Calls["flip"]["input"]): Flipped {
  const bytes = evidence.bytes.slice();
  const offset = bytes.length >> 1;
  bytes[offset] = (bytes[offset] ?? 0) ^ 1;
  return { report: judge({ ...evidence, bytes }, atMs, policy === null ? {} : { policy }), offset };
}

/** A session that met an unknown key attests anew by itself: the page has to show the new report. */
function announceNewTrust(): void {
  if (!present || present.session.report === announced) return;
  const trust = trustOf(present.session);
  announced = trust.report;
  post({ kind: "trust", trust });
}

function trustOf(open: Session): Trust {
  return { report: open.report, evidence: open.evidence, validUntilMs: open.validUntilMs };
}

function randomNumber(): number {
  const [number = 0] = crypto.getRandomValues(new Uint32Array(1));
  return number >>> 1;
}

function loseIfTrapped(cause: unknown): boolean {
  const trapped = cause instanceof WebAssembly.RuntimeError;
  if (trapped) lose(cause);
  return trapped;
}

/** After a trap the wasm memory may be in any state: nothing more may be asked of it. */
function lose(cause: unknown): void {
  post({
    kind: "lost",
    problem: {
      code: "VERIFIER_STOPPED",
      title: "The verifier stopped",
      detail: `It ended with: ${messageOf(cause)}.`,
      remedy: "Verify again: that starts a fresh one. If it stops again, this browser may lack WebAssembly.",
    },
  });
  self.close();
}

function problemOf(cause: unknown): Problem {
  return {
    code: "VERIFIER_ERROR",
    title: "The verifier could not go on",
    detail: `It reported: ${messageOf(cause)}.`,
    remedy: "Verify again.",
  };
}

function transferables(output: Calls[keyof Calls]["output"]): Transferable[] {
  if (output && typeof output === "object" && "status" in output && output.status === "answered") {
    const { buffer } = output.response.body;
    // A view into wasm memory must not be transferred: that would take the whole memory along.
    if (buffer instanceof ArrayBuffer && buffer.byteLength === output.response.body.byteLength)
      return [buffer];
  }
  return [];
}

function post(reply: Reply, transfer: Transferable[] = []): void {
  self.postMessage(reply, transfer);
}
