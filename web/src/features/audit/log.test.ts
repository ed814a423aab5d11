import type { LogReport } from "@clearseal/verifier";
import { describe, expect, it, vi } from "vitest";
import { lookUp, type Tools } from "./log";
import type { Earlier } from "./messages";

const LOG = "ab".repeat(32);
const RECEIPT = "cd".repeat(32);

function report(size: number, verdict: LogReport["verdict"] = "simulated"): LogReport {
  const head = { log: LOG, size, root: "", time: 1_000 + size, document: "" };
  return { verdict, code: null, message: null, remedy: null, head, checks: [] };
}

/** A host whose log has `size` receipts; records the requests to the host and to the verifier. */
function fixture() {
  const asked: string[] = [];
  const judged: (Earlier | null)[] = [];
  const stored = new Map<string, string>();
  const state = { size: 1, status: 200, reachable: true, refuse: false, judge: true };
  const tools: { -readonly [K in keyof Tools]: Tools[K] } = {
    get: async (path) => {
      asked.push(path);
      if (!state.reachable) throw new TypeError("no network");
      return new Response(path.includes("consistency") ? "consistency" : `inclusion ${state.size}`, {
        status: path.includes("consistency") ? state.status : 200,
      });
    },
    judge: async (_inclusion, earlier) => {
      judged.push(earlier);
      if (!state.judge) return null;
      return report(state.size, earlier && state.refuse ? "refused" : "simulated");
    },
    memory: {
      getItem: (key) => stored.get(key) ?? null,
      setItem: (key, value) => void stored.set(key, value),
    },
  };
  return { tools, asked, judged, stored, state, lookUp: () => lookUp(tools, LOG, RECEIPT) };
}

describe("a receipt's inclusion in the log", () => {
  it("is proved alone at first, and its head is stored", async () => {
    const { asked, judged, lookUp: look } = fixture();
    expect(await look()).toMatchObject({ at: "judged", since: null });
    expect(asked).toEqual([`/v1/log/${LOG}/inclusion?receipt=${RECEIPT}`]);
    expect(judged).toEqual([null]);
  });

  it("is compared with the newest head seen", async () => {
    const { asked, judged, state, lookUp: look } = fixture();
    await look();
    state.size = 5;
    expect(await look()).toMatchObject({ at: "judged", since: { size: 1, time: 1_001 } });
    expect(asked[2]).toBe(`/v1/log/${LOG}/consistency?from=1&to=5`);
    expect(judged[2]).toEqual({ inclusion: "inclusion 1", consistency: "consistency" });
    state.size = 6;
    expect(await look()).toMatchObject({ since: { size: 5 } });
  });

  it("needs no consistency proof if the tree has not grown", async () => {
    const { asked, judged, lookUp: look } = fixture();
    await look();
    await look();
    expect(asked).toHaveLength(2);
    expect(judged[2]).toEqual({ inclusion: "inclusion 1", consistency: null });
  });

  it("is never compared with a refused head", async () => {
    const { state, lookUp: look } = fixture();
    await look();
    state.size = 2;
    state.refuse = true;
    expect(await look()).toMatchObject({ at: "judged", report: { verdict: "refused" } });
    state.size = 3;
    expect(await look()).toMatchObject({ since: { size: 1 } });
  });

  it("passes a smaller tree to the verifier", async () => {
    const { asked, judged, state, lookUp: look } = fixture();
    state.size = 4;
    await look();
    state.size = 3;
    await look();
    expect(asked).toHaveLength(2);
    expect(judged[2]).toEqual({ inclusion: "inclusion 4", consistency: null });
  });

  it("explains an unreachable log, a truncated log and a stopped verifier", async () => {
    const { state, lookUp: look } = fixture();
    await look();
    state.size = 2;
    state.status = 404;
    expect(await look()).toMatchObject({ at: "unanswered", why: expect.stringContaining("truncated") });
    state.status = 500;
    expect(await look()).toMatchObject({ at: "unanswered", why: expect.stringContaining("500") });
    state.judge = false;
    expect(await look()).toMatchObject({ at: "unanswered", why: expect.stringContaining("stopped") });
    state.reachable = false;
    expect(await look()).toMatchObject({ at: "unanswered", why: expect.stringContaining("reached") });
  });

  it("limits the length and the duration of an answer", async () => {
    const { tools, lookUp: look } = fixture();
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(16 * 1024));
      },
    });
    tools.get = async () => new Response(endless);
    expect(await look()).toMatchObject({ at: "unanswered", why: expect.stringContaining("longer than any") });
    expect(pulled).toBeLessThan(30);

    const timeout = vi.spyOn(AbortSignal, "timeout").mockReturnValue(AbortSignal.abort());
    tools.get = async (_path, signal) => {
      signal.throwIfAborted();
      return new Response("late");
    };
    expect(await look()).toMatchObject({ at: "unanswered", why: expect.stringContaining("reached") });
    timeout.mockRestore();

    // The connection breaks in the middle of the answer.
    const cut = new ReadableStream({ pull: (controller) => controller.error(new TypeError("cut")) });
    tools.get = async () => new Response(cut);
    expect(await look()).toMatchObject({ at: "unanswered", why: expect.stringContaining("reached") });
  });

  it("reports an exception of the page as a failure", async () => {
    const { tools, lookUp: look } = fixture();
    tools.judge = async () => {
      throw new TypeError("a fault of the page");
    };
    expect(await look()).toMatchObject({ at: "unanswered", why: expect.stringContaining("failed") });
  });

  it("works without storage", async () => {
    const { tools, lookUp: look } = fixture();
    const denied = () => {
      throw new DOMException("denied", "SecurityError");
    };
    tools.memory = { getItem: denied, setItem: denied };
    expect(await look()).toMatchObject({ at: "judged", since: null });
  });

  it("works with invalid storage content", async () => {
    const { stored, lookUp: look } = fixture();
    for (const nonsense of ["", "{", "null", '{"inclusion":1}', '{"inclusion":"x","size":1.5,"time":1}']) {
      stored.set(`clearseal.log.${LOG}`, nonsense);
      expect(await look()).toMatchObject({ at: "judged", since: null });
    }
  });
});
