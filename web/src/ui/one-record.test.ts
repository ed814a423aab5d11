import { afterEach, describe, expect, it, vi } from "vitest";
import { oneRecord } from "./one-record";

type Handler = (() => void) | null;

/** A database whose transaction ends as the test decides. */
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
  it("is saved only once its transaction is complete", async () => {
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
    transaction.error = new Error("quota exceeded");
    const expected = expect(saving).rejects.toThrow("quota exceeded");
    transaction[end]?.();
    await expected;
    expect(database.close).toHaveBeenCalledOnce();
  });
});
