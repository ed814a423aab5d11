import type { Connection, Session, StreamedBatch, StreamOptions } from "@clearseal/verifier";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Calls, Reply, Request } from "./messages";

const verifier = vi.hoisted(() => ({
  connect: vi.fn<(url: string, options: { policy?: string }) => Promise<Connection>>(),
  StreamError: class StreamError extends Error {
    readonly transient = false;
    readonly report = null;
    readonly remedy = "Send the rest when you like.";
    constructor(readonly code: string) {
      super(code);
    }
  },
}));

vi.mock("@clearseal/verifier", () => ({
  initialise: async () => undefined,
  questions: () => [],
  buildInfo: () => ({ policy: null }),
  bundleWithContent: vi.fn(),
  bundleWithSalt: vi.fn(),
  ...verifier,
}));

vi.mock("./module", () => ({ fetchModule: async () => undefined }));

/** Not a literal, because the page's type check, which covers this test, excludes workers. */
const WORKER = new URL("./worker.ts", import.meta.url).pathname;

/** Loads a worker, with a fake global scope. */
async function worker() {
  const replies: Reply[] = [];
  const self: { onmessage?: (event: { data: Request }) => void } = {};
  vi.stubGlobal("self", {
    addEventListener: () => undefined,
    postMessage: (reply: Reply) => void replies.push(reply),
    close: () => undefined,
    set onmessage(listener: (event: { data: Request }) => void) {
      self.onmessage = listener;
    },
  });
  vi.resetModules();
  await import(/* @vite-ignore */ WORKER);
  let id = 0;
  const call = <K extends keyof Calls>(call: K, input: Calls[K]["input"]) => {
    id += 1;
    const mine = id;
    self.onmessage?.({ data: { kind: "call", id: mine, call, input } as Request });
    return mine;
  };
  const outputOf = (id: number) =>
    replies.find((reply) => reply.kind === "done" && reply.id === id) as
      | Extract<Reply, { kind: "done" }>
      | undefined;
  const parts = () => replies.filter(({ kind }) => kind === "part").length;
  return { call, outputOf, parts };
}

/** A session that streams until aborted: closing it discards its keys, but not its channel. */
function session(model = "m") {
  let next: () => void = () => undefined;
  const state = { closed: false, sent: 0, next: () => next() };
  async function* stream(texts: readonly string[], { signal }: StreamOptions = {}) {
    for (const first of texts.keys()) {
      await new Promise<void>((resolve) => {
        next = resolve;
        signal?.addEventListener("abort", () => resolve(), { once: true });
      });
      if (signal?.aborted) throw new verifier.StreamError("ABORTED");
      state.sent += 1;
      const batch = { status: "rejected", first, count: 1, httpStatus: 400, code: "X", detail: "x" };
      yield batch as StreamedBatch;
    }
  }
  const report = { verdict: "verified", manifest: { modelId: model } };
  const close = () => {
    state.closed = true;
  };
  const open = { report, evidence: null, validUntilMs: 1, stream, close };
  const connection = { status: "trusted", session: open as unknown as Session } as Connection;
  return { state, connection };
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 0));
const texts = ["a", "b", "c"];
const connect = (policy: string | null) => ({ url: "http://service", policy });

/** A worker with a session without a chosen policy, and a waiting stream. */
async function streaming() {
  const { call, outputOf, parts } = await worker();
  const first = session();
  verifier.connect.mockResolvedValueOnce(first.connection);
  call("connect", connect(null));
  await settle();
  const stream = call("stream", { texts, model: "m" });
  await settle();
  return { call, outputOf, parts, first, stream };
}

beforeEach(() => void verifier.connect.mockReset());

describe("the verifier's worker", () => {
  it("closes a session and its stream before it verifies under another policy", async () => {
    const { call, outputOf, parts, first, stream } = await streaming();
    first.state.next();
    await settle();
    expect(parts()).toBe(1);

    verifier.connect.mockReturnValueOnce(new Promise(() => undefined));
    call("connect", connect("{}"));
    await settle();
    expect(first.state.closed).toBe(true);
    first.state.next();
    await settle();
    expect(first.state.sent).toBe(1);
    expect(outputOf(stream)?.output).toMatchObject({
      status: "unreachable",
      problem: { code: "JUDGED_ANEW" },
    });
    const later = call("stream", { texts, model: "m" });
    await settle();
    expect(outputOf(later)?.output).toMatchObject({ problem: { code: "NO_SESSION" } });
  });

  it("aborts a request in flight, and ignores its answer, when another policy is chosen", async () => {
    for (const comes of ["nothing", "an answer"]) {
      const { call, outputOf } = await worker();
      let cut = false;
      let give = (_: unknown) => {};
      const exchange = (_: unknown, { signal }: { signal: AbortSignal }) =>
        new Promise((resolve) => {
          give = resolve;
          signal.addEventListener("abort", () => {
            cut = true;
            if (comes === "nothing") resolve({ status: "unreachable", problem: { code: "ABORTED" } });
          });
        });
      const open = { report: {}, close: () => undefined, exchange };
      verifier.connect.mockResolvedValueOnce({ status: "trusted", session: open } as unknown as Connection);
      call("connect", connect(null));
      await settle();
      const asked = call("exchange", { method: "GET", path: "/", headers: {}, body: new Uint8Array() });
      await settle();
      verifier.connect.mockReturnValueOnce(new Promise(() => undefined));
      call("connect", connect("{}"));
      await settle();
      expect(cut).toBe(true);
      give({ status: "answered", response: { body: new Uint8Array() }, receipt: null });
      await settle();
      expect(outputOf(asked)?.output).toMatchObject({ problem: { code: "JUDGED_ANEW" } });
    }
  });

  it("continues to stream during a re-verification under the same policy, and stops if that is refused", async () => {
    const { call, outputOf, parts, first, stream } = await streaming();
    let refuse: (connection: Connection) => void = () => undefined;
    verifier.connect.mockReturnValueOnce(
      new Promise((resolve) => {
        refuse = resolve;
      }),
    );
    call("connect", connect(null));
    await settle();
    expect(first.state.closed).toBe(false);
    first.state.next();
    await settle();
    expect(parts()).toBe(1);
    refuse({ status: "refused", report: {}, evidence: null } as Connection);
    await settle();
    expect(first.state.closed).toBe(true);
    expect(outputOf(stream)?.output).toMatchObject({ problem: { code: "JUDGED_ANEW" } });
    expect(first.state.sent).toBe(1);
  });

  it("ends streams of earlier sessions of the same policy when the policy changes", async () => {
    const { call, outputOf, parts } = await worker();
    const [first, second] = [session(), session()];
    verifier.connect.mockResolvedValueOnce(first.connection).mockResolvedValueOnce(second.connection);
    call("connect", connect(null));
    await settle();
    const stream = call("stream", { texts, model: "m" });
    await settle();
    call("connect", connect(null));
    await settle();
    expect(first.state.closed).toBe(true);
    first.state.next();
    await settle();
    expect(parts()).toBe(1);
    verifier.connect.mockReturnValueOnce(new Promise(() => undefined));
    call("connect", connect("{}"));
    await settle();
    expect(second.state.closed).toBe(true);
    expect(outputOf(stream)?.output).toMatchObject({ problem: { code: "JUDGED_ANEW" } });
    first.state.next();
    await settle();
    expect(first.state.sent).toBe(1);
  });

  it("streams nothing to another model", async () => {
    const { call, outputOf } = await worker();
    verifier.connect.mockResolvedValueOnce(session("new").connection);
    call("connect", connect(null));
    await settle();
    const stream = call("stream", { texts, model: "old" });
    await settle();
    expect(outputOf(stream)?.output).toMatchObject({
      status: "unreachable",
      problem: { code: "OTHER_MODEL", detail: expect.stringContaining("new") },
    });
  });

  it("gives exchanges numbers that differ from those of other workers", async () => {
    const numbers: number[] = [];
    for (let made = 0; made < 2; made += 1) {
      const { call, outputOf } = await worker();
      const answered = { status: "answered", response: { body: new Uint8Array() }, receipt: null };
      const open = { report: {}, close: () => undefined, exchange: async () => answered };
      verifier.connect.mockResolvedValueOnce({ status: "trusted", session: open } as unknown as Connection);
      call("connect", connect(null));
      await settle();
      const id = call("exchange", { method: "GET", path: "/", headers: {}, body: new Uint8Array() });
      await settle();
      const output = outputOf(id)?.output as Extract<Calls["exchange"]["output"], { status: "answered" }>;
      numbers.push(output.exchange);
    }
    expect(numbers.every(Number.isSafeInteger)).toBe(true);
    expect(Math.abs((numbers[0] ?? 0) - (numbers[1] ?? 0))).toBeGreaterThan(2 ** 19);
  });
});
