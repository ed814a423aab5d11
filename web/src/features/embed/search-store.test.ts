import { describe, expect, it } from "vitest";
import { atOnce } from "../../ui/slices";
import type { Exchanged } from "../../verifier/messages";
import { SearchStore } from "./search-store";
import { ranked } from "./vectors";

function answer(vector: readonly number[]): Exchanged {
  const bytes = new Uint8Array(Float32Array.from(vector).buffer);
  const embedding = btoa(String.fromCharCode(...bytes));
  const body = JSON.stringify({
    data: [{ index: 0, embedding, clearseal: { tokens: 256, truncated: true } }],
  });
  return {
    status: "answered",
    exchange: 7,
    response: { status: 200, headers: [], body: new TextEncoder().encode(body) },
    receipt: {
      verdict: "verified",
      code: null,
      message: null,
      remedy: null,
      judgedAtMs: 0,
      checks: [],
      claims: null,
    },
    origin: "built-in",
  };
}

describe("SearchStore", () => {
  it("seals the query, keeps its receipt, and reports truncation", async () => {
    const sent: string[] = [];
    const store = new SearchStore({
      exchange: async ({ body }) => {
        sent.push(new TextDecoder().decode(body));
        return answer([1, 0]);
      },
    });
    await store.ask("m", "which?");
    expect(JSON.parse(sent[0] ?? "")).toMatchObject({ model: "m", input: ["which?"] });
    expect(store.get()).toMatchObject({ at: "found", query: "which?", truncated: true });
    expect(store.receipts()).toHaveLength(1);
  });

  it("shows the answer to the last query, in any order of arrival", async () => {
    const waiting: ((exchanged: Exchanged) => void)[] = [];
    const store = new SearchStore({ exchange: () => new Promise((resolve) => waiting.push(resolve)) });
    const first = store.ask("m", "first");
    const second = store.ask("m", "second");
    waiting[1]?.(answer([0, 1]));
    await second;
    waiting[0]?.(answer([1, 0]));
    await first;
    expect(store.get()).toMatchObject({ at: "found", query: "second" });
  });

  it("reports why there is no answer", async () => {
    const problem = { code: "X", title: "x", detail: "x", remedy: "x" };
    const store = new SearchStore({ exchange: async () => ({ status: "unreachable", problem }) });
    await store.ask("m", "lost");
    expect(store.get()).toMatchObject({ at: "failed", problem });
  });
});

describe("ranked", () => {
  it("ranks by cosine, independent of vector length", () => {
    const vectors = [
      [1, 0],
      [10, 10],
      [0, 3],
    ].map((values) => Float32Array.from(values));
    expect(atOnce(ranked(vectors, Float32Array.from([2, 0]), 2)).map(({ index }) => index)).toEqual([0, 1]);
  });
});
