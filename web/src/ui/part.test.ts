import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { NoHash, Part } from "./part";

const SCRIPT = "/assets/Part-1.js";
/** As in the import map (web/integrity.ts). */
const LISTED = [SCRIPT, ...[2, 3, 4, 5, 6, 7, 8].map((attempt) => `${SCRIPT}?attempt=${attempt}`)];

const fetched = vi.hoisted(() => [] as string[]);

vi.mock("./page-file", () => ({
  hashOf: (address: string) => {
    if (!LISTED.includes(address)) throw new Error(`${address} is not a file of this page`);
    return "sha256-";
  },
  fetchPageFile: async (address: string) => {
    fetched.push(address);
    return new Response("");
  },
}));

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("navigator", { onLine: true });
  vi.stubGlobal("document", { querySelector: () => ({ content: SCRIPT }) });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("imports only addresses with a hash, and then fails for good", async () => {
  const imported: string[] = [];
  const fail = async (address: string) => {
    imported.push(address);
    throw new TypeError("Failed to fetch dynamically imported module");
  };
  const part = new Part("Part", () => fail(SCRIPT), fail);
  // As a user who tries again whenever the page offers it.
  for (let time = 0; time < 3; time += 1) {
    const loading = part.load();
    await vi.runAllTimersAsync();
    await loading;
  }
  expect(imported).toEqual(LISTED);
  expect(fetched).toHaveLength(LISTED.length - 1);
  const view = part.get();
  expect(view.at === "failed" && view.error).toBeInstanceOf(NoHash);
});
