import { beforeEach, expect, test, vi } from "vitest";

const pageOf = (name: string) => ({
  origin: `https://${name}.example`,
  key: "RW",
  manifest: "https://publisher.example/",
});
const writes: unknown[] = [];

beforeEach(() => {
  vi.resetModules();
  vi.unstubAllGlobals();
  writes.length = 0;
  const items: Record<string, unknown> = {};
  let last: Promise<unknown> = Promise.resolve();
  vi.stubGlobal("chrome", {
    storage: {
      local: {
        get: async (key: string) => ({ [key]: items[key] }),
        set: async (more: Record<string, unknown>) => {
          writes.push(more.pages);
          Object.assign(items, structuredClone(more));
        },
      },
    },
  });
  vi.stubGlobal("__CLEARSEAL_PAGES__", []);
  vi.stubGlobal("navigator", {
    locks: {
      request: (_: string, work: () => Promise<unknown>) => {
        last = last.then(work);
        return last;
      },
    },
  });
});

test("pages that are added and removed at once are all kept or all gone", async () => {
  const { addPage, readPages, removePage } = await import("./api");
  const [a, b, c] = ["a", "b", "c"].map(pageOf);
  await Promise.all([a, b, c].map((page) => page && addPage(page)));
  expect(await readPages()).toEqual([a, b, c]);
  await Promise.all(["https://a.example", "https://c.example"].map(removePage));
  expect(await readPages()).toEqual([b]);
});

test("an entry that replaces another is one change", async () => {
  const { addPage } = await import("./api");
  await addPage(pageOf("a"));
  await addPage({ ...pageOf("a"), key: "RWS" });
  expect(writes).toEqual([[pageOf("a")], [{ ...pageOf("a"), key: "RWS" }]]);
});
