import { describe, expect, it } from "vitest";
import { atOnce } from "../../ui/slices";
import type { Exchanged, Reranked, RerankRequest } from "../../verifier/messages";
import { RESCORED, SearchStore } from "./search-store";
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

describe("SearchStore with a cross-encoder", () => {
  const answered = answer([1, 0]);
  const receipt = answered.status === "answered" ? answered.receipt : null;
  const vectors = [
    [0, 1],
    [1, 0],
    [1, 1],
  ].map((values) => Float32Array.from(values));
  const rerank = { model: "ranker", texts: ["far", "near", "between"], vectors };

  it("scores the nearest items again, and keeps both numbers and the receipt", async () => {
    const sent: RerankRequest[] = [];
    const store = new SearchStore({
      exchange: async () => answer([1, 0]),
      rerank: async (request): Promise<Reranked> => {
        sent.push(request);
        const results = [2, 0, 1].map((index, place) => ({
          index,
          document: request.documents[index] ?? "",
          score: 0.75 - place / 4,
          tokens: 9,
          truncated: index === 0,
          proof: "proof",
        }));
        if (!receipt) throw new Error("no receipt");
        return { status: "ranked", results, exchange: 8, receipt, origin: "built-in" };
      },
    });
    await store.ask("m", "which?", rerank);
    expect(sent).toEqual([{ model: "ranker", query: "which?", documents: ["near", "between", "far"] }]);
    expect(store.get()).toMatchObject({
      at: "found",
      rescored: {
        at: "scored",
        model: "ranker",
        verdict: "verified",
        items: [
          { index: 0, score: 0.75, cosine: 0, truncated: false },
          { index: 1, score: 0.5, cosine: 1, truncated: true },
          { index: 2, score: 0.25, truncated: false },
        ],
      },
    });
    expect(store.receipts().map(({ exchange }) => exchange)).toEqual([7, 8]);
  });

  it("sends no more than the nearest items", async () => {
    let documents = 0;
    const store = new SearchStore({
      exchange: async () => answer([1, 0]),
      rerank: async (request) => {
        documents = request.documents.length;
        return { status: "unreachable", problem: { code: "X", title: "x", detail: "x", remedy: "x" } };
      },
    });
    const many = Array.from({ length: 50 }, (_, at) => Float32Array.from([1, at]));
    const texts = many.map((_, at) => `text ${at}`);
    await store.ask("m", "which?", { model: "ranker", texts, vectors: many });
    expect(documents).toBe(RESCORED);
    expect(store.get()).toMatchObject({ at: "found", rescored: { at: "failed", problem: { code: "X" } } });
  });

  it("discards scores of an earlier query", async () => {
    let release: (reranked: Reranked) => void = () => undefined;
    const store = new SearchStore({
      exchange: async () => answer([1, 0]),
      rerank: () => new Promise((resolve) => (release = resolve)),
    });
    const first = store.ask("m", "first", rerank);
    await new Promise((resolve) => setTimeout(resolve, 0));
    await store.ask("m", "second");
    release({ status: "unreachable", problem: { code: "X", title: "x", detail: "x", remedy: "x" } });
    await first;
    expect(store.get()).toMatchObject({ at: "found", query: "second", rescored: null });
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
