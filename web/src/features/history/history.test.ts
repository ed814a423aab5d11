import type { ReceiptReport } from "@clearseal/verifier";
import { describe, expect, it, vi } from "vitest";
import { FORMAT, fromJsonl, type Kept, MAX_KEPT, toJsonl, withKept } from "./history";
import type { Storage } from "./history-db";
import { HistoryStore } from "./history-store";

const bundle = (name: string) => JSON.stringify({ format: FORMAT, receipt: name });
const kept = (id: string): Kept => ({ id, bundle: bundle(id), summary: null });

describe("history", () => {
  it("exports and imports without loss", () => {
    const all = [kept("a"), kept("b")];
    const read = fromJsonl(`\uFEFF${toJsonl(all)}\n`);
    expect(read).toEqual({ status: "read", bundles: all.map((one) => one.bundle) });
  });

  it.each([
    ["", "no audit bundle"],
    [`${bundle("a")}\n{"format":"other"}\n`, "Line 2"],
    ["{", "Line 1"],
    [`${bundle("a")}\n`.repeat(MAX_KEPT + 1), "at most"],
  ])("rejects the whole file: %#", (text, why) => {
    const read = fromJsonl(text);
    expect(read.status === "refused" && read.why).toContain(why);
  });

  it("keeps the newest first, each once, up to MAX_KEPT", () => {
    const first = withKept([], [kept("a"), kept("b")]);
    expect(first.map(({ id }) => id)).toEqual(["b", "a"]);
    expect(withKept(first, [kept("a")])).toBe(first);
    expect(withKept(first, [kept("c")]).map(({ id }) => id)).toEqual(["c", "b", "a"]);
    const many = Array.from({ length: MAX_KEPT + 5 }, (_, index) => kept(`${index}`));
    expect(withKept([], many)).toHaveLength(MAX_KEPT);
  });
});

describe("HistoryStore", () => {
  function storage(): Storage & { content: readonly Kept[] | null } {
    return {
      content: null,
      async exists() {
        return this.content !== null;
      },
      async load() {
        return this.content;
      },
      async save(kept) {
        this.content = kept ?? [];
      },
      async update(change) {
        if (this.content === null) return false;
        this.content = change(this.content);
        return true;
      },
      async erase() {
        this.content = null;
      },
    };
  }
  const file = (content: string) => ({ size: content.length, text: async () => content });

  const report = {
    verdict: "simulated",
    claims: { issuedAt: 7, sequenceNumber: 3, modelId: "m" },
  } as unknown as ReceiptReport;

  async function withReceipt(store: HistoryStore): Promise<void> {
    const receipts = [{ exchange: 9, report, origin: "chosen" as const, items: [0, 1] }];
    const asked: number[] = [];
    const runs = { receipts: () => receipts, subscribe: () => () => undefined };
    const bundles = async (exchange: number) => {
      asked.push(exchange);
      return `${JSON.stringify(JSON.parse(bundle("x")), null, 2)}`;
    };
    store.follow(runs, bundles);
    store.follow(runs, bundles);
    await vi.waitFor(() => expect(store.get().kept).toHaveLength(1));
    expect(asked).toEqual([9]);
  }

  it("collects receipts, and stores them only when switched on", async () => {
    const shelf = storage();
    const store = new HistoryStore(shelf);
    await withReceipt(store);
    expect(store.get().kept).toMatchObject([
      { bundle: bundle("x"), summary: { sequence: 3, origin: "chosen", issuedAtMs: 7_000, items: 2 } },
    ]);
    expect(shelf.content).toBeNull();
    await store.store(true);
    expect(shelf.content).toHaveLength(1);
    const next = new HistoryStore(shelf);
    await next.load();
    expect(next.get()).toMatchObject({ stored: true, kept: [{ bundle: bundle("x") }] });
    await next.store(false);
    expect(shelf.content).toBeNull();
    expect(next.get().kept).toHaveLength(1);
  });

  it("forgets all receipts, also stored ones, until that is undone", async () => {
    const shelf = storage();
    const store = new HistoryStore(shelf);
    await store.import(file(`${bundle("a")}\n${bundle("b")}\n`));
    await store.store(true);
    const before = store.get().kept;
    await store.clear();
    expect(store.get().kept).toEqual([]);
    expect(shelf.content).toEqual([]);
    await store.import(file(`${bundle("c")}\n`));
    await store.remember();
    expect(store.get().kept.slice(1)).toEqual(before);
    expect(store.get().forgotten).toEqual([]);
    expect(shelf.content).toHaveLength(3);
  });

  it("keeps the receipts that another tab has stored", async () => {
    const shelf = storage();
    const [one, other, third] = [new HistoryStore(shelf), new HistoryStore(shelf), new HistoryStore(shelf)];
    await third.load();
    await one.store(true);
    await one.import(file(`${bundle("a")}\n`));
    await other.load();
    await one.import(file(`${bundle("b")}\n`));
    await other.import(file(`${bundle("c")}\n`));
    expect(shelf.content).toHaveLength(3);
    // It was opened before receipts were stored: what it collects stays in it, and stored ones stay stored.
    await third.import(file(`${bundle("d")}\n`));
    await third.clear();
    expect(shelf.content).toHaveLength(3);
    await other.clear();
    expect(shelf.content?.map((kept) => kept.bundle)).toEqual([bundle("b")]);
    await other.remember();
    expect(shelf.content).toHaveLength(3);
  });

  it("stores nothing more once another tab has erased all", async () => {
    const shelf = storage();
    const [one, other] = [new HistoryStore(shelf), new HistoryStore(shelf)];
    await one.store(true);
    await other.load();
    await one.store(false);
    await other.import(file(`${bundle("a")}\n`));
    expect(shelf.content).toBeNull();
    expect(other.get()).toMatchObject({ stored: false, problem: null });
    expect(other.get().kept).toHaveLength(1);
  });

  it("remembers that receipts are stored when all are forgotten", async () => {
    const shelf = storage();
    const store = new HistoryStore(shelf);
    await store.import(file(`${bundle("a")}\n`));
    await store.store(true);
    await store.clear();
    const next = new HistoryStore(shelf);
    await next.load();
    expect(next.get()).toMatchObject({ stored: true, kept: [] });
  });

  it("reports a change that was not stored, and receipts that were not erased", async () => {
    const fail = () => Promise.reject(new Error("quota"));
    const shelf = storage();
    const store = new HistoryStore(shelf);
    await store.store(true);
    Object.assign(shelf, { update: fail, erase: fail });
    await store.import(file(`${bundle("a")}\n`));
    expect(store.get()).toMatchObject({ stored: true, problem: expect.stringContaining("did not store") });
    await store.store(false);
    expect(store.get()).toMatchObject({ stored: true, problem: expect.stringContaining("did not erase") });
  });

  it.each([
    ["it cannot be read", { size: 1, text: () => Promise.reject(new Error("gone")) }, "could not read"],
    [
      "it is too large",
      { size: 2 ** 31, text: () => Promise.reject(new Error("asked")) },
      "more than 64.0 MiB",
    ],
  ])("reports a file when %s", async (_, unreadable, why) => {
    const store = new HistoryStore(storage());
    await store.import(unreadable);
    expect(store.get().problem).toContain(why);
  });

  it("reports that the browser stores nothing", async () => {
    const store = new HistoryStore({ ...storage(), save: () => Promise.reject(new Error("no")) });
    await store.store(true);
    expect(store.get()).toMatchObject({ stored: false, problem: expect.stringContaining("does not allow") });
  });

  it("imports receipts, and keeps existing ones when a file is rejected", async () => {
    const store = new HistoryStore(storage());
    await store.import(file(`${bundle("a")}\n`));
    await store.import(file("nonsense"));
    expect(store.get().kept).toHaveLength(1);
    expect(store.get().problem).toContain("Nothing was imported");
  });
});
