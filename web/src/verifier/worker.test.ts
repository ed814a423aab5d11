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

/** Not by a literal: the page's type check, which covers this test, leaves the workers out. */
const WORKER = new URL("./worker.ts", import.meta.url).pathname;

/** The worker as its page has it. */
async function worker() {
  const replies: Reply[] = [];
  const self: { onmessage?: (event: { data: Request }) => void } = {};
  vi.stubGlobal("self", {
    addEventListener: () => undefined,
    postMessage: (reply: Reply) => void replies.push(reply),
    close: () => undefined,
    set onmessage(heard: (event: { data: Request }) => void) {
      self.onmessage = heard;
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

/** A session that goes on streaming until it is told to stop: closing it lets go of its keys, and not of its channel. */
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

/** A worker with a session under no policy of one's own, over which a stream waits. */
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
  it("lets go of a session, and of what is streamed over it, before it asks under another policy", async () => {
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

  it("cuts a request on its way, and takes no answer to it, where another policy is chosen", async () => {
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

  it("goes on streaming while the same policy judges again, and stops where that is refused", async () => {
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

  it("ends what an earlier session of the same policy still streams, when the policy changes", async () => {
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

  it("numbers exchanges unlike any other worker", async () => {
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
