import type { Problem, ReceiptReport } from "@clearseal/verifier";
import { describe, expect, it } from "vitest";
import { CallFailed } from "../../verifier/client";
import type { Exchanged, SealedRequest } from "../../verifier/messages";
import {
  batches,
  IDLE,
  MAX_BATCH_CHARACTERS,
  MAX_ITEM_CHARACTERS,
  MAX_SEALED_ITEMS,
  pace,
  type Run,
  tally,
  transition,
  workOf,
} from "./run";
import { RunStore, type Service } from "./run-store";

const problem: Problem = { code: "X", title: "x", detail: "x", remedy: "x" };
const report: ReceiptReport = {
  verdict: "verified",
  code: null,
  message: null,
  remedy: null,
  judgedAtMs: 0,
  checks: [],
  claims: null,
};

const start = (texts: string[], id = 1): Run =>
  transition(IDLE, { type: "started", id, model: "m", texts, nowMs: 1000 });
const embedding = { vector: new Float32Array([1, 0]), tokens: 3, truncated: false };

describe("batches", () => {
  it("cuts after 32 items", () => {
    const texts = Array.from({ length: 70 }, () => "x");
    expect(batches(texts, [...texts.keys()]).map((batch) => batch.length)).toEqual([32, 32, 6]);
  });

  it("keeps a batch under its size, and sends an oversized text alone", () => {
    const half = "x".repeat(MAX_BATCH_CHARACTERS / 2);
    const texts = [half, half, half, "x".repeat(MAX_BATCH_CHARACTERS * 2), "y"];
    expect(batches(texts, [0, 1, 2, 3, 4])).toEqual([[0, 1], [2], [3], [4]]);
  });
});

describe("a run", () => {
  it("counts items, computes the rate, and finishes", () => {
    let run = start(["a", "b", "c", "d"]);
    run = transition(run, { type: "sent", id: 1, items: [0, 1] });
    run = transition(run, {
      type: "embedded",
      id: 1,
      embeddings: [embedding, embedding],
      receipt: { exchange: 1, report, origin: "evidence", items: [0, 1] },
    });
    if (run.at !== "running") throw new Error(run.at);
    expect(pace(run, 2000)).toEqual({ rate: 2, leftMs: 1000 });
    run = transition(run, { type: "failed", id: 1, items: [2, 3], problem });
    run = transition(run, { type: "ended", id: 1, problem: null, nowMs: 3000 });
    expect(run).toMatchObject({ at: "finished", tookMs: 2000 });
    expect(tally(workOf(run) ?? { model: "", items: [], receipts: [] })).toEqual({
      total: 4,
      embedded: 2,
      failed: 2,
      waiting: 0,
      settled: 4,
    });
  });

  it("ignores events of an earlier run", () => {
    const run = start(["a"], 2);
    expect(transition(run, { type: "failed", id: 1, items: [0], problem })).toBe(run);
    expect(transition(run, { type: "ended", id: 1, problem: null, nowMs: 1 })).toBe(run);
  });

  it("returns items in flight to waiting when it stops", () => {
    let run = start(["a", "b"]);
    run = transition(run, { type: "sent", id: 1, items: [0] });
    run = transition(run, { type: "ended", id: 1, problem, nowMs: 2 });
    expect(run).toMatchObject({ at: "stopped", problem });
    expect(workOf(run)?.items.map(({ outcome }) => outcome.at)).toEqual(["waiting", "waiting"]);
  });
});

/** Answers in OpenAI's format; a text that contains "bad" fails its request. */
function enclave(
  special: (texts: string[], call: number) => Exchanged | null = () => null,
  stream: Service["stream"] = channel(),
) {
  const requests: string[][] = [];
  const exchange = async (request: SealedRequest): Promise<Exchanged> => {
    const { input } = JSON.parse(new TextDecoder().decode(request.body)) as { input: string[] };
    requests.push(input);
    const other = special(input, requests.length);
    if (other) return other;
    if (input.some((text) => text.includes("bad")))
      return answer(400, { error: { message: "Too long.", code: "INPUT_TOO_LONG" } });
    return answer(200, {
      data: input.map((text, index) => ({
        index,
        embedding: [text.length, 1],
        clearseal: { tokens: 3, truncated: false },
      })),
    });
  };
  const forget = async (): Promise<void> => undefined;
  return { requests, exchange, stream, forget, model: (): string | null => "m" };
}

/** Answers over a channel, `size` texts at a time; a text that contains "bad" fails its batch. */
function channel(size = 4): Service["stream"] {
  return async (texts, _model, signal, onPart) => {
    for (let first = 0; first < texts.length; first += size) {
      if (signal.aborted) return { status: "unreachable", problem };
      const some = texts.slice(first, first + size);
      const count = some.length;
      if (some.some((text) => text.includes("bad"))) {
        onPart({ status: "rejected", first, count, httpStatus: 400, problem });
        continue;
      }
      const values = Float32Array.from(some.flatMap((text) => [text.length, 1]));
      onPart({
        status: "embedded",
        exchange: 100 + first,
        first,
        count,
        dimension: 2,
        values,
        tokens: Uint32Array.from(some, () => 3),
        truncated: Uint8Array.from(some, (text) => (text.length > 8 ? 1 : 0)),
        response: new Uint8Array(values.buffer),
        receipt: report,
        origin: "evidence",
      });
      await Promise.resolve();
    }
    return { status: "done" };
  };
}

function answer(status: number, body: unknown, headers: [string, string][] = []): Exchanged {
  const bytes = new TextEncoder().encode(JSON.stringify(body));
  const response = { status, headers, body: bytes };
  return { status: "answered", exchange: 1, response, receipt: report, origin: "evidence" };
}

describe("RunStore", () => {
  const states = (store: RunStore) => workOf(store.get())?.items.map(({ outcome }) => outcome.at);

  it("embeds every item and keeps its receipt", async () => {
    const store = new RunStore(enclave());
    await store.start(
      "m",
      Array.from({ length: 40 }, (_, at) => `text ${at}`),
    );
    expect(store.get().at).toBe("finished");
    expect(workOf(store.get())?.receipts).toHaveLength(2);
    expect(new Set(states(store))).toEqual(new Set(["embedded"]));
  });

  it("finds the one bad item in a batch, and retries it alone", async () => {
    const service = enclave();
    const store = new RunStore(service);
    await store.start("m", ["good", "bad", "fine"]);
    expect(states(store)).toEqual(["embedded", "failed", "embedded"]);
    service.requests.length = 0;
    await store.resume([1]);
    expect(service.requests).toEqual([["bad"]]);
  });

  it("does not send a text that no request holds, and embeds its neighbours", async () => {
    const service = enclave();
    const store = new RunStore(service);
    await store.start("m", ["a", "é".repeat(MAX_ITEM_CHARACTERS + 1), "b"]);
    expect(states(store)).toEqual(["embedded", "failed", "embedded"]);
    expect(workOf(store.get())?.items[1]?.outcome).toMatchObject({ problem: { code: "TEXT_TOO_LONG" } });
    expect(service.requests.flat()).toEqual(["a", "b"]);
  });

  it("stops at a refused answer and sends nothing more", async () => {
    const service = enclave(() => ({ status: "refused", problem, report: null }));
    const store = new RunStore(service);
    await store.start(
      "m",
      Array.from({ length: MAX_SEALED_ITEMS }, () => "x"),
    );
    expect(store.get()).toMatchObject({ at: "stopped", problem });
    expect(service.requests.length).toBeLessThanOrEqual(2);
  });

  it("keeps items when the service is unreachable, and resumes later", async () => {
    let down = true;
    const store = new RunStore(enclave(() => (down ? { status: "unreachable", problem } : null)));
    await store.start("m", ["a", "b"]);
    expect(store.get().at).toBe("stopped");
    expect(states(store)).toEqual(["waiting", "waiting"]);
    down = false;
    await store.resume();
    expect(states(store)).toEqual(["embedded", "embedded"]);
  });

  it("waits for the Retry-After of a busy enclave, then succeeds", async () => {
    const busy = answer(429, { error: { message: "Busy.", code: "BUSY" } }, [["Retry-After", "0"]]);
    const store = new RunStore(enclave((_, call) => (call < 3 ? busy : null)));
    await store.start("m", ["a"]);
    expect(states(store)).toEqual(["embedded"]);
  });

  it("keeps embedded items when it is cancelled", async () => {
    const store: RunStore = new RunStore(
      enclave((_, call) => {
        if (call > 1) store.cancel();
        return null;
      }),
    );
    await store.start(
      "m",
      Array.from({ length: MAX_SEALED_ITEMS }, () => "x"),
    );
    expect(store.get()).toMatchObject({ at: "stopped", problem: null });
    const all = states(store) ?? [];
    expect(all.filter((at) => at === "embedded").length).toBeGreaterThanOrEqual(32);
    expect(all).toContain("waiting");
  });

  it("runs although the verifier with earlier bundles has stopped, and can be cancelled meanwhile", async () => {
    const gone = async () => {
      throw new CallFailed(problem);
    };
    const store = new RunStore({ ...enclave(), forget: gone });
    await store.start("m", ["a"]);
    expect(states(store)).toEqual(["embedded"]);

    let forgotten: () => void = () => undefined;
    const slow = () => new Promise<void>((resolve) => (forgotten = resolve));
    const service = { ...enclave(), forget: slow };
    const cancelled = new RunStore(service);
    const started = cancelled.start("m", ["a"]);
    cancelled.cancel();
    forgotten();
    await started;
    expect(cancelled.get()).toMatchObject({ at: "stopped", problem: null });
    expect(service.requests).toEqual([]);
  });

  it("ends with a problem after an exception, and resumes later", async () => {
    let broken = true;
    const service = enclave(() => {
      if (broken) throw new TypeError("a fault of the page");
      return null;
    });
    const store = new RunStore(service);
    await store.start("m", ["a", "b"]);
    expect(store.get()).toMatchObject({
      at: "stopped",
      problem: { code: "RUN_BROKEN", detail: expect.stringContaining("a fault of the page") },
    });
    broken = false;
    await store.resume();
    expect(states(store)).toEqual(["embedded", "embedded"]);
  });

  it("sends nothing to a model other than the one of its vectors", async () => {
    let model = "m";
    let down = true;
    const service = {
      ...enclave((_, call) => (down && call > 1 ? { status: "unreachable", problem } : null)),
      model: () => model,
    };
    const store = new RunStore(service);
    await store.start(
      "m",
      Array.from({ length: 40 }, () => "x"),
    );
    expect(store.get().at).toBe("stopped");
    down = false;
    model = "another";
    const sent = service.requests.length;
    await store.resume();
    expect(store.get()).toMatchObject({ at: "stopped", problem: { code: "OTHER_MODEL" } });
    expect(service.requests).toHaveLength(sent);
    model = "m";
    await store.resume();
    expect(store.get().at).toBe("finished");
  });

  it("reports an answer with a missing embedding as malformed", async () => {
    const store = new RunStore(enclave(() => answer(200, { data: [{ index: 0, embedding: [1] }] })));
    await store.start("m", ["a", "b"]);
    expect(workOf(store.get())?.items[0]?.outcome).toMatchObject({
      at: "failed",
      problem: { code: "MALFORMED_ANSWER" },
    });
  });

  describe("with more than MAX_SEALED_ITEMS items", () => {
    const many = Array.from({ length: MAX_SEALED_ITEMS + 3 }, (_, at) => `text ${at}`);

    it("sends them over a channel, and keeps vectors, cuts and receipts", async () => {
      const service = enclave();
      const store = new RunStore(service);
      await store.start("m", many);
      expect(store.get().at).toBe("finished");
      expect(service.requests).toEqual([]);
      const work = workOf(store.get());
      expect(work?.receipts.flatMap(({ items }) => items)).toEqual([...many.keys()]);
      for (const [index, { outcome }] of (work?.items ?? []).entries()) {
        if (outcome.at !== "embedded") throw new Error(outcome.at);
        const { embedding, exchange } = outcome;
        expect([...embedding.vector]).toEqual([many[index]?.length, 1]);
        expect(embedding.truncated).toBe((many[index]?.length ?? 0) > 8);
        const receipt = work?.receipts.find((one) => one.exchange === exchange);
        // A view of the bytes that the receipt commits to, not a copy.
        expect(embedding.vector.buffer).toBe(receipt?.response?.buffer);
      }
    });

    it("finds the bad item by sealed requests", async () => {
      const service = enclave();
      const store = new RunStore(service);
      await store.start("m", [...many, "bad"]);
      const failed = states(store)?.flatMap((at, index) => (at === "failed" ? [index] : []));
      expect(failed).toEqual([many.length]);
      expect(new Set(states(store))).toEqual(new Set(["embedded", "failed"]));
    });

    it("keeps the reason of a text that the channel refused alone, and does not ask again", async () => {
      const service = enclave(undefined, channel(1));
      const store = new RunStore(service);
      await store.start("m", [...many, "bad", "good"]);
      const items = workOf(store.get())?.items ?? [];
      expect(items[many.length]?.outcome).toEqual({ at: "failed", problem });
      expect(items[many.length + 1]?.outcome.at).toBe("embedded");
      expect(service.requests).toEqual([]);
    });

    it("falls back to sealed requests if channels are blocked", async () => {
      const absent = { ...problem, code: "CHANNEL_NO_CONNECTION" };
      const service = enclave(undefined, async () => ({ status: "unreachable", problem: absent }));
      const store = new RunStore(service);
      await store.start("m", many);
      expect(store.get().at).toBe("finished");
      expect(service.requests.flat()).toHaveLength(many.length);
    });

    it("stops if the channel is refused, and sends nothing by sealed requests", async () => {
      const service = enclave(undefined, async () => ({ status: "refused", problem, report: null }));
      const store = new RunStore(service);
      await store.start("m", many);
      expect(store.get()).toMatchObject({ at: "stopped", problem });
      expect(service.requests).toEqual([]);
    });

    it("keeps embedded items when it is cancelled, and resumes with the rest", async () => {
      const over = channel();
      let cancelled = false;
      const store: RunStore = new RunStore(
        enclave(undefined, (texts, model, signal, onPart) =>
          over(texts, model, signal, (part) => {
            onPart(part);
            if (!cancelled) store.cancel();
            cancelled = true;
          }),
        ),
      );
      await store.start("m", many);
      expect(store.get()).toMatchObject({ at: "stopped", problem: null });
      expect(states(store)?.filter((at) => at === "embedded")).toHaveLength(4);
      await store.resume();
      expect(store.get().at).toBe("finished");
    });
  });
});
