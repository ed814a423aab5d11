import { describe, expect, it, vi } from "vitest";
import { type KeptWork, readWork, type WorkStorage } from "./kept";
import { KeptStore } from "./kept-store";
import { RunStore } from "./run-store";

const vector = Float32Array.from([1, 0]);
const kept: KeptWork = {
  model: "m",
  keptAtMs: 5,
  items: [{ text: "one", embedding: { vector, tokens: 3, truncated: false } }],
};

function memory(held: KeptWork | null = null, made = held !== null) {
  const storage: WorkStorage & { held: KeptWork | null; made: boolean } = {
    held,
    made,
    exists: async () => storage.made,
    load: async () => storage.held,
    save: async (value) => void Object.assign(storage, { held: value, made: true }),
    update: async (change) => {
      if (storage.made) storage.held = change(storage.held);
      return storage.made;
    },
    erase: async () => void Object.assign(storage, { held: null, made: false }),
  };
  return storage;
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

describe("KeptStore, with other tabs and reloads", () => {
  const work = (texts: readonly string[], missing: readonly string[] = []) => ({
    model: "m",
    ended: true,
    items: texts.map((text) => ({
      text,
      embedding: missing.includes(text) ? null : { vector, tokens: 3, truncated: false },
    })),
  });

  it("stores nothing more once another tab has erased all", async () => {
    const storage = memory();
    const embedded = runs();
    const [one, other] = [new KeptStore(embedded, storage), new KeptStore(runs(), storage)];
    await one.store(true);
    await other.load();
    await other.store(false);
    await embedded.start("m", ["one"]);
    await vi.waitFor(() => expect(one.get().stored).toBe(false));
    expect(storage).toMatchObject({ held: null, made: false });
  });

  it("remembers that items are stored before there are any", async () => {
    const storage = memory();
    await new KeptStore(runs(), storage).store(true);
    const next = new KeptStore(runs(), storage);
    await next.load();
    expect(next.get()).toMatchObject({ stored: true, fromMs: null });
  });

  it("restores the tab's own items, not those that another tab stored", async () => {
    const embedded = runs();
    const store = new KeptStore(embedded, memory(kept));
    await store.load(work(["mine"]));
    expect(embedded.get()).toMatchObject({ at: "finished", work: { items: [{ text: "mine" }] } });
    expect(store.get()).toMatchObject({ stored: true, fromMs: null });
  });

  it("completes the tab's own items from the stored ones", async () => {
    const embedded = runs();
    const store = new KeptStore(embedded, memory(kept));
    await store.load(work(["failed", "one"], ["failed", "one"]));
    expect(embedded.get()).toMatchObject({ at: "finished", work: { items: [{ text: "one" }] } });
    expect(store.get()).toMatchObject({ fromMs: 5, ownTab: true });
  });

  it("restores an interrupted run, although an earlier one of the same texts is stored", async () => {
    const embedded = runs();
    await new KeptStore(embedded, memory(kept)).load({ ...work(["one", "two"], ["two"]), ended: false });
    expect(embedded.get()).toMatchObject({ at: "stopped", problem: { code: "PAGE_RELOADED" } });
  });

  it("restores the tab's own items where the browser stores nothing", async () => {
    const embedded = runs();
    const failing = { ...memory(), exists: () => Promise.reject(new Error("private")) };
    await new KeptStore(embedded, failing).load(work(["mine"]));
    expect(embedded.get()).toMatchObject({ work: { items: [{ text: "mine" }] } });
  });

  it("reports items that were not stored or not erased", async () => {
    const fail = () => Promise.reject(new Error("quota"));
    const storage = memory();
    const embedded = runs();
    const store = new KeptStore(embedded, storage);
    await store.store(true);
    Object.assign(storage, { update: fail, erase: fail });
    await embedded.start("m", ["one"]);
    await vi.waitFor(() => expect(store.get().problem).toContain("did not store"));
    await store.store(false);
    expect(store.get()).toMatchObject({ stored: true, problem: expect.stringContaining("did not erase") });
  });
});

describe("readWork", () => {
  it("accepts only values that this version wrote", () => {
    expect(readWork(kept)).toEqual(kept);
    const earlier = { ...kept, items: [{ text: "one", embedding: { vector } }] };
    expect(readWork(earlier)?.items[0]?.embedding).toEqual({ vector, tokens: null, truncated: null });
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
