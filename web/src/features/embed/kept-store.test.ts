import { describe, expect, it } from "vitest";
import { type KeptWork, readWork, type WorkStorage } from "./kept";
import { KeptStore } from "./kept-store";
import { RunStore } from "./run-store";

const vector = Float32Array.from([1, 0]);
const kept: KeptWork = {
  model: "m",
  keptAtMs: 5,
  items: [{ text: "one", embedding: { vector, tokens: 3, truncated: false } }],
};

function memory(held: KeptWork | null = null): WorkStorage & { held: KeptWork | null } {
  return {
    held,
    async load() {
      return this.held;
    },
    async save(value) {
      this.held = value;
    },
    async erase() {
      this.held = null;
    },
  };
}

function runs(): RunStore {
  const bytes = new Uint8Array(vector.buffer.slice(0));
  const body = JSON.stringify({ data: [{ index: 0, embedding: btoa(String.fromCharCode(...bytes)) }] });
  return new RunStore({
    model: () => "m",
    exchange: async () => ({
      status: "answered",
      exchange: 1,
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
      origin: null,
    }),
    stream: async () => ({ status: "done" }),
    forget: async () => {},
  });
}

describe("KeptStore", () => {
  it("stores nothing by default", async () => {
    const storage = memory();
    const embedded = runs();
    const store = new KeptStore(embedded, storage);
    await store.load();
    await embedded.start("m", ["one"]);
    expect(storage.held).toBeNull();
    expect(store.get()).toMatchObject({ stored: false, fromMs: null });
  });

  it("stores embedded items when switched on, and erases them when switched off", async () => {
    const storage = memory();
    const embedded = runs();
    const store = new KeptStore(embedded, storage, () => 5);
    await store.store(true);
    await embedded.start("m", ["one"]);
    await Promise.resolve();
    expect(storage.held?.items.map(({ text }) => text)).toEqual(["one"]);
    await store.store(false);
    expect(storage.held).toBeNull();
  });

  it("restores stored items, with the time at which they were stored", async () => {
    const embedded = runs();
    const store = new KeptStore(embedded, memory(kept));
    await store.load();
    expect(store.get()).toMatchObject({ stored: true, fromMs: 5 });
    expect(embedded.get()).toMatchObject({ at: "finished", work: { model: "m", receipts: [] } });
  });

  it("does not replace newly embedded items with stored ones", async () => {
    const embedded = runs();
    await embedded.start("m", ["newer"]);
    await new KeptStore(embedded, memory(kept)).load();
    expect(embedded.get()).toMatchObject({ work: { items: [{ text: "newer" }] } });
  });
});

describe("readWork", () => {
  it("accepts only values that this version wrote", () => {
    expect(readWork(kept)).toEqual(kept);
    const other = Float32Array.from([1]);
    for (const invalid of [
      null,
      7,
      { ...kept, model: 1 },
      { ...kept, items: [] },
      { ...kept, items: [{ text: "one", embedding: { vector: [1, 0] } }] },
      { ...kept, items: [...kept.items, { text: "two", embedding: { vector: other } }] },
      { ...kept, items: [{ text: "one", embedding: { vector: Float32Array.from([Number.NaN, 0]) } }] },
    ]) {
      expect(readWork(invalid)).toBeNull();
    }
  });
});
