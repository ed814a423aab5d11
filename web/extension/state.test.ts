import { expect, test } from "vitest";
import { advance, advanceEarlier, type Event, summarize, type TabState } from "./state";

const RELEASE = { name: "0.1.0", commit: "3d".repeat(20), signed: 1 };
const NAVIGATED: Event = { type: "navigated", origin: "https://page.example" };
const LOADED: Event = { type: "loaded", release: RELEASE };
const compared = (found: "same" | "bytes" | null, isDocument = false): Event => ({
  type: "compared",
  url: "https://page.example/",
  isDocument,
  found,
});

function follow(...events: Event[]): TabState | null {
  return events.reduce<TabState | null>(advance, null);
}

test("a page is verified once its document and every file so far are the release's", () => {
  const asked = follow(NAVIGATED, { type: "asked" }, LOADED);
  expect(summarize(asked)).toBe("checking");
  const verified = advance(asked, compared("same", true));
  expect(summarize(verified)).toBe("verified");
  const script = advance(verified, { type: "asked" });
  expect(summarize(script)).toBe("checking");
  expect(summarize(advance(script, compared("bytes")))).toBe("differs");
});

test("scripts alone verify nothing", () => {
  expect(summarize(follow(NAVIGATED, LOADED, { type: "asked" }, compared("same")))).toBe("unknown");
  expect(summarize(follow({ type: "asked" }, compared("same", true)))).toBe("unknown");
});

test("without a release nothing is verified, and a difference outweighs that", () => {
  const unavailable: Event = { type: "unavailable", problem: "expired" };
  expect(summarize(follow(NAVIGATED, unavailable, { type: "asked" }, compared(null, true)))).toBe("unknown");
  expect(summarize(follow(NAVIGATED, unavailable, { type: "asked" }, compared("bytes")))).toBe("differs");
});

test("a load that differed counts until the tab is closed, because going back may show it again", () => {
  const again = follow(NAVIGATED, LOADED, compared("bytes"), NAVIGATED, LOADED, compared("same", true));
  expect(again?.differences).toEqual([]);
  expect(summarize(again)).toBe("differs");
  const third = [NAVIGATED, LOADED, compared("same", true)].reduce(advance, again);
  expect(summarize(third)).toBe("differs");
});

test("a comparison that ends after the next navigation counts, and until then nothing is verified", () => {
  const left = follow(NAVIGATED, LOADED, { type: "asked" }, NAVIGATED, LOADED, compared("same", true));
  expect(summarize(left)).toBe("checking");
  const late = (event: Event) => summarize(advanceEarlier(left as TabState, event));
  expect(late(compared("same"))).toBe("verified");
  expect(late({ type: "skipped" })).toBe("verified");
  expect(late(compared("bytes"))).toBe("differs");
  expect(late(compared("bytes", true))).toBe("differs");
  const again = [NAVIGATED, LOADED, compared("same", true)].reduce(advance, left);
  expect(summarize(again)).toBe("checking");
});

test("a load without a release counts until the tab is closed, too", () => {
  const unavailable: Event = { type: "unavailable", problem: "expired" };
  const again = follow(NAVIGATED, unavailable, NAVIGATED, LOADED, compared("same", true));
  expect(summarize(again)).toBe("unknown");
  const verified = follow(NAVIGATED, NAVIGATED, LOADED, compared("same", true)) as TabState;
  expect(summarize(advanceEarlier(verified, unavailable))).toBe("unknown");
  expect(summarize(advanceEarlier(verified, LOADED))).toBe("verified");
});

test("a host cannot fill the memory with differences", () => {
  const many = Array.from({ length: 1000 }, () => compared("bytes"));
  expect(follow(NAVIGATED, ...many)?.differences.length).toBe(100);
});
