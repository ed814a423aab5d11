import type { AttestationReport, ExchangeOutcome } from "../pkg/clearseal_verifier.js";
import { type Attested, attest, type Service } from "./attest.js";
import type { Socket } from "./link.js";
import { isSameModel, modelsOf } from "./models.js";
import { policyText } from "./policy.js";
import { rerank } from "./rerank.js";
import { type Follow, Follower } from "./source.js";
import { type StreamHost, stream } from "./stream.js";
import { ABORTED, request, unlessAborted, unreachable } from "./transport.js";
import {
  type Evidence,
  type ExchangeResult,
  type PolicyInput,
  PolicyUnusable,
  type Problem,
  type Ranking,
  type RerankOptions,
  SealedFetchError,
  type SealedMessage,
  type ServedModel,
  type Session,
  StreamError,
  type StreamedBatch,
  type StreamOptions,
} from "./types.js";
import type { Enclave, Opened, Sealed } from "./verifier.js";

const MAX_ANSWER_BYTES = 16 * 1024 * 1024 + 4 * 1024;
/** Code of the enclave's sealed refusal of an unknown attestation document. */
const DOCUMENT_UNKNOWN = "DOCUMENT_UNKNOWN";

/** Origin of a request that was made without one; never resolved. */
const INNER_ORIGIN = "https://clearseal.internal";

/** Headers about the connection, which a browser or Node may add; they have no meaning in a sealed request. */
const CONNECTION_FIELDS = new Set([
  "connection",
  "content-length",
  "cookie",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

type Trusted = Extract<Attested, { status: "trusted" | "simulated" }>;
/**
 * Result of one sealed request. `doubtful`: there was no answer, or the attested keys do not open it. The enclave may be gone, or
 * the answer may have been changed in transit.
 */
interface Attempt {
  readonly result: ExchangeResult;
  readonly doubtful: boolean;
}
/** `null`: verified again. */
type Renewal = Extract<ExchangeResult, { status: "refused" | "unreachable" }> | null;

export class SealedSession implements Session {
  #service: Service;
  readonly #follower: Follower | null;
  /** Aborted by the next policy change, which aborts all requests in flight. */
  #change = new AbortController();
  /** The policy was changed, and no enclave has been accepted since then. */
  #changed = false;
  #enclave: Enclave | null;
  #report: AttestationReport;
  #evidence: Evidence;
  #validUntilMs: number;
  #renewal: Promise<Renewal> | null = null;
  /** Of the evidence for which they were read. */
  #models: { readonly evidence: Evidence; readonly list: readonly ServedModel[] } | null = null;
  /** Sessions with other models, by their hash. */
  readonly #others = new Map<string, Promise<SealedSession>>();
  /** The same, once they are open. */
  readonly #opened = new Set<SealedSession>();

  /** A session with another model has the follower of the first one, which passes policies on. */
  constructor(service: Service, trusted: Trusted, follow: Follow | Follower | null = null) {
    this.#service = service;
    this.#follower =
      follow instanceof Follower
        ? follow
        : follow && new Follower(follow, service.now, (policy) => this.setPolicy(policy));
    this.#enclave = trusted.enclave;
    this.#report = trusted.report;
    this.#evidence = trusted.evidence;
    this.#validUntilMs = trusted.enclave.validUntilMs;
    this.#prepareSoon();
  }

  get report(): AttestationReport {
    return this.#report;
  }

  get evidence(): Evidence {
    return this.#evidence;
  }

  get validUntilMs(): number {
    return this.#validUntilMs;
  }

  /** Nothing is sealed under an expired proof. A closed session is not expired: it has nothing to renew. */
  get #expired(): boolean {
    return this.#enclave !== null && this.#service.now() > this.#validUntilMs;
  }

  get policyProblem(): Problem | null {
    return this.#follower?.problem ?? null;
  }

  setPolicy(policy: PolicyInput): void {
    const text = policyText(policy);
    if (text === this.#service.policy) return;
    if (!this.#enclave) throw new PolicyUnusable(CLOSED.code, CLOSED.detail, CLOSED.remedy);
    if (text === null) throw new PolicyUnusable(NOT_TEXT.code, NOT_TEXT.detail, NOT_TEXT.remedy);
    // Only tests whether the policy parses; the verdict comes from a live check. A report without a policy says why it did not.
    const judged = this.#service.verifier.judge(this.#evidence, text, this.#service.now());
    const { policy: used, code, message, remedy } = judged;
    if (!used) {
      throw new PolicyUnusable(code ?? NOT_TEXT.code, message ?? NOT_TEXT.detail, remedy ?? NOT_TEXT.remedy);
    }
    this.#service = { ...this.#service, policy: text };
    this.#changed = true;
    // Expires the proof: the next request begins with a check.
    this.#validUntilMs = Number.NEGATIVE_INFINITY;
    const before = this.#change;
    this.#change = new AbortController();
    before.abort();
    for (const other of this.#opened) {
      if (other.#enclave) other.setPolicy(text);
    }
  }

  get models(): readonly ServedModel[] {
    const evidence = this.#evidence;
    if (this.#models?.evidence !== evidence) {
      const { modelId, modelSha256 } = this.#report.manifest ?? {};
      const isOwn = ({ id, sha256 }: ServedModel) => id === modelId && sha256 === modelSha256;
      const list = modelsOf(evidence.bytes);
      this.#models = { evidence, list: [...list.filter(isOwn), ...list.filter((model) => !isOwn(model))] };
    }
    return this.#models.list;
  }

  async withModel(name: string, options: { readonly signal?: AbortSignal } = {}): Promise<SealedSession> {
    const [own] = this.models;
    const model =
      this.models.find(({ id }) => id === name) ?? this.models.find(({ id }) => isSameModel(id, name));
    if (!model) {
      const names = this.models.map(({ id }) => `\`${id}\``).join(", ");
      throw new SealedFetchError(
        "MODEL_NOT_SERVED",
        `The verified enclave does not hold that model; its models are ${names}.`,
        "Name one of these.",
      );
    }
    if (model === own) return this;
    const { signal } = options;
    for (;;) {
      const opening = this.#others.get(model.sha256) ?? this.#openWith(model);
      this.#others.set(model.sha256, opening);
      let session: SealedSession | null;
      try {
        session = await unlessAborted(opening, signal);
      } catch (cause) {
        this.#discard(model, opening);
        throw cause;
      }
      signal?.throwIfAborted();
      if (session !== null && session.#enclave !== null) return session;
      this.#discard(model, opening);
    }
  }

  #discard({ sha256 }: ServedModel, opening: Promise<SealedSession>): void {
    if (this.#others.get(sha256) === opening) this.#others.delete(sha256);
  }

  async rerank(query: string, documents: readonly string[], options: RerankOptions = {}): Promise<Ranking> {
    const { model, signal } = options;
    const session = model === undefined ? this : await this.withModel(model, { ...(signal && { signal }) });
    return rerank(session, query, documents, options);
  }

  close(): void {
    this.#enclave?.free();
    this.#enclave = null;
    for (const other of this.#opened) other.close();
    this.#opened.clear();
    this.#others.clear();
  }

  async exchange(
    message: SealedMessage,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<ExchangeResult> {
    const { signal } = options;
    if (this.#follower && this.#enclave) await unlessAborted(this.#follower.ask(), signal);
    const used = this.#enclave;
    if (!this.#expired) {
      const first = await this.#attempt(message, signal);
      if (!first.doubtful || signal?.aborted || !this.#enclave) return first.result;
    }
    // An expired proof, a missing or changed answer, or an unsealed hint (which a relay can forge) leads to one new check and one
    // more attempt, never to a loop.
    const renewal = await unlessAborted(this.#renew(used), signal);
    if (signal?.aborted) return unreachable(ABORTED);
    if (renewal) return renewal;
    if (this.#expired) return unreachable(EXPIRED_TWICE);
    const { result } = await this.#attempt(message, signal);
    return result.status === "key-unknown" ? unreachable(KEY_UNKNOWN_TWICE) : result;
  }

  /** Bound: clients call it as a function. */
  readonly fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const { base } = this.#service;
    const request = new Request(input instanceof Request ? input : new URL(input, base), init);
    const { origin, pathname, search } = new URL(request.url);
    if (origin !== base.origin && origin !== INNER_ORIGIN) {
      const message = `This session only sends requests to ${base.origin}, not to ${origin}.`;
      throw new SealedFetchError("OTHER_ORIGIN", message, "Use a path, or an address of the same origin.");
    }
    const headers: Record<string, string> = {};
    for (const [name, value] of request.headers) {
      if (!CONNECTION_FIELDS.has(name)) headers[name] = value;
    }
    const body = new Uint8Array(await request.arrayBuffer());
    const { signal } = request;
    const result = await this.exchange(
      { method: request.method, path: pathname + search, headers, body },
      { signal },
    );
    signal.throwIfAborted();
    switch (result.status) {
      case "answered": {
        const { status, headers, body } = result.response;
        const bodyless = status === 204 || status === 205 || status === 304;
        return new Response(bodyless ? null : new Uint8Array(body), { status, headers });
      }
      case "refused":
        throw new SealedFetchError(result.code, result.message, result.remedy);
      case "unreachable":
        throw new SealedFetchError(result.problem.code, result.problem.detail, result.problem.remedy);
      case "key-unknown":
        throw new SealedFetchError(
          KEY_UNKNOWN_TWICE.code,
          KEY_UNKNOWN_TWICE.detail,
          KEY_UNKNOWN_TWICE.remedy,
        );
    }
  };

  stream(
    texts: Iterable<string> | AsyncIterable<string>,
    options: StreamOptions = {},
  ): AsyncGenerator<StreamedBatch, void, undefined> {
    const { base, now, webSocket } = this.#service;
    const host: StreamHost = {
      channelUrl: ({ hint }) => {
        const url = new URL(`v1/channel?enclave=${hint}`, base);
        url.protocol = base.protocol === "http:" ? "ws:" : "wss:";
        return url.href;
      },
      now,
      model: () => this.#report.manifest?.modelId ?? "",
      followPolicy: () => void this.#follower?.ask(),
      change: () => this.#change.signal,
      enclave: async () => {
        await this.#follower?.ask();
        if (this.#expired) await this.#renewForStream(this.#enclave);
        if (!this.#enclave) throw streamError(CLOSED);
        if (this.#expired) throw streamError(EXPIRED_TWICE);
        return this.#enclave;
      },
      renew: (used) => this.#renewForStream(used),
      socket: (url) => {
        if (!webSocket) throw streamError(NO_WEBSOCKET);
        return new webSocket(url) as Socket;
      },
    };
    return stream(host, texts, options);
  }

  /** Not the signal of one caller: others may await the same session. */
  async #openWith(model: ServedModel): Promise<SealedSession> {
    if (!this.#enclave) throw new SealedFetchError(CLOSED.code, CLOSED.detail, CLOSED.remedy);
    const service = this.#service;
    const attested = await attest({ ...service, model }, undefined);
    if (this.#service !== service && this.#enclave) {
      // The policy was changed during the check.
      if ("enclave" in attested) attested.enclave.free();
      return this.#openWith(model);
    }
    switch (attested.status) {
      case "trusted":
      case "simulated":
        if (this.#enclave) {
          const session = new SealedSession({ ...service, model }, attested, this.#follower);
          this.#opened.add(session);
          return session;
        }
        attested.enclave.free();
        throw new SealedFetchError(CLOSED.code, CLOSED.detail, CLOSED.remedy);
      case "refused": {
        const { code, message, remedy } = attested.report;
        throw new SealedFetchError(
          code ?? "ATTESTATION_REFUSED",
          message ?? "It was refused.",
          remedy ?? "Send nothing to it.",
        );
      }
      case "unreachable":
        throw new SealedFetchError(attested.problem.code, attested.problem.detail, attested.problem.remedy);
    }
  }

  /** A refused enclave is a permanent error for the stream; an unreachable host is a transient one. */
  async #renewForStream(used: Enclave | null): Promise<void> {
    const renewal = await this.#renew(used);
    if (renewal === null) return;
    if (renewal.status === "unreachable") {
      throw streamError(renewal.problem, renewal.problem.code !== CLOSED.code);
    }
    const { code, message, remedy, report } = renewal;
    throw new StreamError(code, message, remedy, { report });
  }

  async #attempt(message: SealedMessage, signal: AbortSignal | undefined): Promise<Attempt> {
    if (signal?.aborted) return final(unreachable(ABORTED));
    if (!this.#enclave) return final(unreachable(CLOSED));
    const { transport, base, now } = this.#service;
    const headers = Object.entries(message.headers ?? {}).flatMap(([name, value]) => [
      name.toLowerCase(),
      value,
    ]);
    const { hint } = this.#enclave;
    const sealed = this.#enclave.seal(
      message.method.toUpperCase(),
      message.path,
      headers,
      bytes(message.body),
      now(),
    );
    const body = sealed.takeBytes();
    if (!body) return final(refusedToSeal(sealed));
    // This thread is idle while the service computes.
    this.#prepareSoon();
    const reply = await request(
      transport,
      new URL("v1/gateway", base),
      MAX_ANSWER_BYTES,
      {
        method: "POST",
        headers: {
          "content-type": "message/ohttp-req",
          accept: "message/ohttp-res",
          "clearseal-enclave": hint,
        },
        body: new Uint8Array(body),
      },
      signal,
      this.#change.signal,
    );
    switch (reply.status) {
      case "ok": {
        const opened = result(sealed.open(reply.bytes, now()));
        return { result: opened, doubtful: opened.status !== "answered" };
      }
      case "denied":
        sealed.free();
        return final(unreachable(reply.problem));
      case "key-unknown":
      case "unreachable":
        sealed.free();
        return { result: reply, doubtful: true };
    }
  }

  /** In a later task, so that it does not delay the caller or the request being sent. */
  #prepareSoon(): void {
    setTimeout(() => this.#enclave?.prepare(), 0);
  }

  /** Verifies the enclave again. Concurrent exchanges share one check. */
  #renew(used: Enclave | null): Promise<Renewal> {
    if (this.#enclave && this.#enclave !== used && !this.#expired) return Promise.resolve(null);
    this.#renewal ??= this.#reattest().finally(() => {
      this.#renewal = null;
    });
    return this.#renewal;
  }

  async #reattest(): Promise<Renewal> {
    // Not the signal of one exchange: others may await the same check.
    const service = this.#service;
    const attested = await attest(service, undefined);
    // The policy was changed during the check.
    if (this.#enclave && this.#service !== service) {
      if ("enclave" in attested) attested.enclave.free();
      return this.#reattest();
    }
    if (!this.#enclave) {
      if ("enclave" in attested) attested.enclave.free();
      return unreachable(CLOSED);
    }
    switch (attested.status) {
      case "trusted":
      case "simulated":
        this.#enclave.free();
        this.#enclave = attested.enclave;
        this.#report = attested.report;
        this.#evidence = attested.evidence;
        this.#validUntilMs = attested.enclave.validUntilMs;
        this.#changed = false;
        this.#prepareSoon();
        return null;
      case "refused": {
        this.close();
        this.#report = attested.report;
        this.#evidence = attested.evidence;
        const { code, message, remedy } = attested.report;
        if (this.#changed) return withdrawn(attested.report);
        return {
          status: "refused",
          code: code ?? "ATTESTATION_REFUSED",
          message: message ?? "The enclave was verified again and refused.",
          remedy: remedy ?? "Send nothing to it.",
          receipt: null,
          report: attested.report,
        };
      }
      case "unreachable":
        return attested;
    }
  }
}

function streamError({ code, detail, remedy }: Problem, transient = false): StreamError {
  return new StreamError(code, detail, remedy, { transient });
}

/** Refused under a policy that was changed while the session was open. */
function withdrawn(report: AttestationReport): Extract<Renewal, { status: "refused" }> {
  return {
    status: "refused",
    code: "POLICY_WITHDRAWN",
    message: `The trust policy was changed and accepts no enclave of this service any more (${report.code ?? "ATTESTATION_REFUSED"}).`,
    remedy: "Connect again once the service runs a release that the trust policy accepts.",
    receipt: null,
    report,
  };
}

function final(result: ExchangeResult): Attempt {
  return { result, doubtful: false };
}

function bytes(body: Uint8Array | string | undefined): Uint8Array {
  return typeof body === "string" ? new TextEncoder().encode(body) : (body ?? new Uint8Array(0));
}

function refusedToSeal(sealed: Sealed): ExchangeResult {
  const outcome = sealed.refusal();
  sealed.free();
  if (outcome?.status === "refused") return { ...outcome, report: null };
  return unreachable(CLOSED);
}

function result(opened: Opened): ExchangeResult {
  const outcome: ExchangeOutcome = opened.outcome();
  if (outcome.status === "refused") {
    return outcome.code === DOCUMENT_UNKNOWN ? { status: "key-unknown" } : { ...outcome, report: null };
  }
  return {
    status: "answered",
    response: { status: outcome.httpStatus, headers: outcome.headers, body: opened.body() },
    receipt: outcome.receipt ?? null,
    bundle: opened.bundle(false) ?? "",
    // These closures keep the answer in wasm memory while the caller holds them.
    bundleWithSalt: () => opened.bundleWithSalt() ?? "",
    bundleWithContent: () => opened.bundle(true) ?? "",
  };
}

const CLOSED: Problem = {
  code: "SESSION_CLOSED",
  title: "The session is closed",
  detail: "Its keys were deleted, so nothing was sent.",
  remedy: "Connect again.",
};

const NOT_TEXT = {
  code: "POLICY_NOT_TEXT",
  detail: "The trust policy is not JSON text.",
  remedy: "Pass the text of the policy; of an object, JSON.stringify gives it.",
};

const NO_WEBSOCKET: Problem = {
  code: "NO_WEBSOCKET",
  title: "WebSocket is not available",
  detail: "Streaming needs a WebSocket, which this platform does not have.",
  remedy: "Use Node 22 or later, or pass `webSocket`.",
};

const EXPIRED_TWICE: Problem = {
  code: "EXPIRED_TWICE",
  title: "A new proof has already expired",
  detail: "The enclave was verified again, but by this machine's clock the new proof had already expired.",
  remedy: "Set this machine's clock; if it is right, the enclave's clock is wrong.",
};

const KEY_UNKNOWN_TWICE: Problem = {
  code: "KEY_UNKNOWN_TWICE",
  title: "The host does not reach the enclave that it presents",
  detail: "A key that was attested a moment ago was answered as unknown again.",
  remedy: "Try again in a minute; if it goes on, the host mixes enclaves up or means harm.",
};
