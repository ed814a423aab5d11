import { afterEach, describe, expect, it, vi } from "vitest";
import { oneRecord } from "./one-record";

type Handler = (() => void) | null;

/** A database of which a test decides how its transaction ends. */
function browser() {
  const request: { onsuccess: Handler; onerror: Handler } = { onsuccess: null, onerror: null };
  const transaction = {
    oncomplete: null as Handler,
    onabort: null as Handler,
    onerror: null as Handler,
    error: null as Error | null,
    objectStore: () => ({ put: () => request }),
  };
  const database = { transaction: () => transaction, close: vi.fn() };
  const opening: { onsuccess: Handler; result: unknown } = { onsuccess: null, result: database };
  vi.stubGlobal("indexedDB", {
    open: () => {
      queueMicrotask(() => opening.onsuccess?.());
      return opening;
    },
  });
  return { request, transaction, database };
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

afterEach(() => void vi.unstubAllGlobals());

describe("one record", () => {
  it("is saved when its transaction is complete, not before", async () => {
    const { request, transaction, database } = browser();
    let saved = false;
    const saving = oneRecord("x", "x", Number)
      .save(1)
      .then(() => {
        saved = true;
      });
    await settle();
    request.onsuccess?.();
    await settle();
    expect(saved).toBe(false);
    expect(database.close).not.toHaveBeenCalled();
    transaction.oncomplete?.();
    await saving;
    expect(database.close).toHaveBeenCalledOnce();
  });

  it.each(["onabort", "onerror"] as const)("is not saved on %s", async (end) => {
    const { transaction, database } = browser();
    const saving = oneRecord("x", "x", Number).save(1);
    await settle();
    transaction.error = new Error("no room");
    const expected = expect(saving).rejects.toThrow("no room");
    transaction[end]?.();
    await expected;
    expect(database.close).toHaveBeenCalledOnce();
  });
});
