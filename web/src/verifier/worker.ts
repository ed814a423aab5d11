import type { Problem, Session, StreamedBatch } from "@clearseal/verifier";
import {
  buildInfo,
  bundleWithContent,
  bundleWithSalt,
  connect,
  initialise,
  judge,
  questions,
  SealedFetchError,
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
  Reranked,
  RerankRequest,
  SealedRequest,
  Streamed,
  StreamedPart,
  Trust,
} from "./messages";
import { otherModel } from "./model";
import { fetchModule } from "./module";

declare const self: DedicatedWorkerGlobalScope;

interface StoredBundle {
  readonly bundle: string;
  readonly withSalt: () => string;
  /** `response`: the page's copy of a streamed answer. */
  readonly withContent: (response: Uint8Array | null) => string;
}

/** The open session, and its policy. */
interface CurrentSession {
  readonly session: Session;
  readonly policy: string | null;
  /** Aborts all requests under this policy, including those of sessions that this one replaced. */
  readonly abortAll: AbortController;
}

let current: CurrentSession | null = null;
let announced: Session["report"] | null = null;
let attempt = 0;
// The page keeps these numbers after a worker ends: a random start avoids reuse by the next worker.
let exchanges = randomNumber() * 2 ** 20;
const kept = new Map<number, StoredBundle>();
const running = new Map<number, AbortController>();

const ready = fetchModule()
  .then(initialise)
  .then(() => post({ kind: "ready", questions: questions(), builtIn: buildInfo().policy }));
ready.catch((cause: unknown) => stop(cause));

// A trap inside an asynchronous call of the module does not reach an awaited promise.
self.addEventListener("error", ({ error }) => stopIfTrapped(error));
self.addEventListener("unhandledrejection", ({ reason }) => stopIfTrapped(reason));

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
    if (!stopIfTrapped(cause)) post({ kind: "failed", id, problem: problemOf(cause) });
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
      if (!entry) throw new Error("this receipt was discarded when a newer run started");
      return selectDisclosure(entry, request.input);
    }
    case "stream":
      return stream(request.id, request.input, signal);
    case "rerank":
      return rerank(request.input, signal);
    case "forget":
      kept.clear();
      return null;
    case "flip":
      return flip(request.input);
  }
}

function selectDisclosure(entry: StoredBundle, { disclose, response }: Calls["bundle"]["input"]): string {
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
  // A verdict under one policy means nothing under another, so nothing is sent during the new verification.
  if (current && current.policy !== policy) closeSession(current);
  const connection = await connect(url, {
    signal,
    ...(policy !== null && { policy }),
    // A page with a built-in policy is for production, even if the user chose another policy.
    allowSimulated: buildInfo().policy === null,
  });
  const opened = "session" in connection ? connection.session : null;
  const superseded = mine !== attempt || signal.aborted;
  if (superseded) {
    opened?.close();
    throw new DOMException("A newer check has started.", "AbortError");
  }
  const before = current;
  if (opened) {
    before?.session.close();
    current = { session: opened, policy, abortAll: before?.abortAll ?? new AbortController() };
  } else if (before) closeSession(before);
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

/** Closes a session, its channels and its requests in flight, which would outlive its keys. */
function closeSession(used: CurrentSession): void {
  // Keep a session that has replaced this one.
  if (current !== used) return;
  current = null;
  used.abortAll.abort();
  used.session.close();
}

/** The session with `model`, or why there is none. Every model of the verified manifest has one. */
async function sessionWith(
  { session, abortAll }: CurrentSession,
  model: string | undefined,
): Promise<Session | Problem> {
  const own = session.report.manifest?.modelId;
  if (model === undefined || model === own) return session;
  const held = session.models?.some(({ id }) => id === model);
  if (!held) return otherModel(model, own) ?? session;
  try {
    return await session.withModel(model, { signal: abortAll.signal });
  } catch (cause) {
    if (abortAll.signal.aborted) return REVERIFYING.problem;
    if (!(cause instanceof SealedFetchError)) throw cause;
    return problemOfFetch(cause);
  }
}

function problemOfFetch({ code, message, remedy }: SealedFetchError): Problem {
  return { code, title: "The enclave did not answer this", detail: message, remedy };
}

/** Scores documents. The package verifies the receipt, and each pair against the tree that it commits to. */
async function rerank({ model, query, documents }: RerankRequest, signal: AbortSignal): Promise<Reranked> {
  const used = current;
  if (!used) return NO_SESSION;
  const { abortAll } = used;
  const session = await sessionWith(used, model);
  if ("code" in session) return { status: "unreachable", problem: session };
  try {
    const ranking = await session.rerank(query, documents, {
      signal: AbortSignal.any([signal, abortAll.signal]),
    });
    exchanges += 1;
    const { bundle, bundleWithSalt: withSalt, bundleWithContent: withContent } = ranking;
    kept.set(exchanges, { bundle, withSalt, withContent });
    const { results, receipt } = ranking;
    return { status: "ranked", results, exchange: exchanges, receipt, origin: originOf(used.session.report) };
  } catch (cause) {
    if (abortAll.signal.aborted && !signal.aborted) return REVERIFYING;
    if (!(cause instanceof SealedFetchError)) throw cause;
    return { status: "unreachable", problem: problemOfFetch(cause) };
  }
}

async function exchange(request: SealedRequest, signal: AbortSignal): Promise<Exchanged> {
  const used = current;
  if (!used) return NO_SESSION;
  const { abortAll } = used;
  const session = await sessionWith(used, request.model);
  if ("code" in session) return { status: "unreachable", problem: session };
  const result = await session.exchange(request, { signal: AbortSignal.any([signal, abortAll.signal]) });
  // Another policy is in use, under which this enclave was not verified.
  if (abortAll.signal.aborted && !signal.aborted) return REVERIFYING;
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
      if (result.report) closeSession(used);
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
          title: "The enclave no longer has this key",
          detail: "The enclave was restarted or replaced between two requests.",
          remedy: "Verify again, then send again.",
        },
      };
    case "unreachable":
      return { status: "unreachable", problem: result.problem };
  }
}

/** Sends texts over a channel. If the session is replaced meanwhile, sends the rest through its successor. */
async function stream(
  id: number,
  { texts, model }: Calls["stream"]["input"],
  signal: AbortSignal,
): Promise<Streamed> {
  let done = 0;
  for (;;) {
    const used = current;
    if (!used) return NO_SESSION;
    const { abortAll } = used;
    // The service may no longer hold the model of the existing vectors.
    const session = await sessionWith(used, model);
    if ("code" in session) return { status: "unreachable", problem: session };
    const before = done;
    try {
      const ends = AbortSignal.any([signal, abortAll.signal]);
      for await (const batch of session.stream(texts.slice(before), { signal: ends })) {
        const part = partOf(batch, before, used.session);
        post({ kind: "part", id, part }, part.status === "embedded" ? [part.response.buffer] : []);
        done = part.first + part.count;
        announceNewTrust();
      }
      return { status: "done" };
    } catch (cause) {
      if (!(cause instanceof StreamError)) throw cause;
      if (abortAll.signal.aborted && !signal.aborted) return REVERIFYING;
      const replaced = current !== null && current !== used;
      if (cause.code === "SESSION_CLOSED" && replaced && !signal.aborted) continue;
      if (cause.report) closeSession(used);
      const { code, remedy, transient, report } = cause;
      const detail = toSentence(cause.message);
      const title = transient ? "The connection failed" : "The channel was refused";
      const status = transient || code === "ABORTED" || code === "SESSION_CLOSED" ? "unreachable" : "refused";
      return { status, problem: { code, title, detail, remedy }, report };
    }
  }
}

/** Makes a sentence of a message of the module, which is a clause. */
function toSentence(text: string): string {
  const capitalised = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capitalised) ? capitalised : `${capitalised}.`;
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

const REVERIFYING = {
  status: "unreachable",
  problem: {
    code: "JUDGED_ANEW",
    title: "The tab is verifying the enclave again",
    detail: "Nothing more was sent under the earlier verdict.",
    remedy: "Send the rest once the enclave is verified again.",
  },
} as const;

/** Changes one bit in the middle of the evidence and checks it, to show that a change is refused. */
function flip({ evidence, policy, atMs }: Calls["flip"]["input"]): Flipped {
  const bytes = evidence.bytes.slice();
  const offset = bytes.length >> 1;
  bytes[offset] = (bytes[offset] ?? 0) ^ 1;
  return { report: judge({ ...evidence, bytes }, atMs, policy === null ? {} : { policy }), offset };
}

/** Sends the page the new report of a session that re-verified automatically after an unknown key. */
function announceNewTrust(): void {
  if (!current || current.session.report === announced) return;
  const trust = trustOf(current.session);
  announced = trust.report;
  post({ kind: "trust", trust });
}

function trustOf(open: Session): Trust {
  const { report, evidence, validUntilMs, models } = open;
  return { report, evidence, validUntilMs, models };
}

function randomNumber(): number {
  const [number = 0] = crypto.getRandomValues(new Uint32Array(1));
  return number >>> 1;
}

function stopIfTrapped(cause: unknown): boolean {
  const trapped = cause instanceof WebAssembly.RuntimeError;
  if (trapped) stop(cause);
  return trapped;
}

/** After a trap, the state of the wasm memory is undefined: this worker must not be used again. */
function stop(cause: unknown): void {
  post({
    kind: "lost",
    problem: {
      code: "VERIFIER_STOPPED",
      title: "The verifier stopped",
      detail: `It failed: ${messageOf(cause)}.`,
      remedy:
        "Verify again, which starts a new worker. If it stops again, this browser may lack WebAssembly.",
    },
  });
  self.close();
}

function problemOf(cause: unknown): Problem {
  return {
    code: "VERIFIER_ERROR",
    title: "The verifier failed",
    detail: `It reported: ${messageOf(cause)}.`,
    remedy: "Verify again.",
  };
}

function transferables(output: Calls[keyof Calls]["output"]): Transferable[] {
  if (output && typeof output === "object" && "status" in output && output.status === "answered") {
    const { buffer } = output.response.body;
    // A view into wasm memory must not be transferred: that would transfer the whole memory.
    if (buffer instanceof ArrayBuffer && buffer.byteLength === output.response.body.byteLength)
      return [buffer];
  }
  return [];
}

function post(reply: Reply, transfer: Transferable[] = []): void {
  self.postMessage(reply, transfer);
}
