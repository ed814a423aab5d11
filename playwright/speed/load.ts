import type { Browser, Page, Request } from "@playwright/test";
import type { TraceEvent } from "../fixtures/trace.ts";
import type { Load } from "./score.ts";

/** What the page is loaded on. */
export interface Device {
  readonly viewport: { readonly width: number; readonly height: number };
  readonly deviceScaleFactor: number;
  readonly isMobile: boolean;
  /** How many times slower its processor is than that of the machine that the budget was set on. */
  readonly slower: number;
  /** Of each request, in milliseconds. */
  readonly latency: number;
  /** In bits a second, both ways. */
  readonly bandwidth: number;
}

/** Lighthouse's phone on slow 4G, and its desktop. */
export const DEVICES = {
  phone: {
    viewport: { width: 412, height: 823 },
    deviceScaleFactor: 1.75,
    isMobile: true,
    slower: 4,
    latency: 150,
    bandwidth: 1_638_400,
  },
  desktop: {
    viewport: { width: 1350, height: 940 },
    deviceScaleFactor: 1,
    isMobile: false,
    slower: 1,
    latency: 40,
    bandwidth: 10_240_000,
  },
} as const satisfies Record<string, Device>;

interface Paints {
  readonly fcp: number;
  readonly lcp: number;
  readonly cls: number;
  readonly shifts: readonly string[];
}

/**
 * Loads a page once, with an empty cache. Its network is slowed down; its processor is not: what the page's thread computes
 * is counted in processor time and multiplied, so that neighbours on this machine do not count. `speed` is what {@link speedHere} found.
 */
export async function load(
  browser: Browser,
  url: string,
  device: Device,
  speed: number,
): Promise<Load & { readonly shifts: readonly string[] }> {
  const { viewport, deviceScaleFactor, isMobile } = device;
  const context = await browser.newContext({ viewport, deviceScaleFactor, isMobile });
  try {
    const page = await context.newPage();
    await slowDown(page, device);
    await page.addInitScript(observe);
    await browser.startTracing(page, { categories: ["toplevel", "loading", "blink.user_timing"] });
    await page.goto(url, { waitUntil: "load" });
    await settled(page);
    const paints = await page.evaluate(() => (globalThis as unknown as { paints: Paints }).paints);
    const trace = JSON.parse((await browser.stopTracing()).toString("utf8")) as { traceEvents: TraceEvent[] };
    const { cls, shifts } = paints;
    return { ...timesOf(trace.traceEvents, paints, device.slower * speed), cls, shifts };
  } finally {
    await context.close();
  }
}

/** What a round of `work` takes on the machine that the budget was set on, an AMD EPYC of 2024, in milliseconds. */
const REFERENCE_MS = 1.9;

/**
 * How many times as fast this machine is as the one that the budget was set on: a budget in milliseconds would be another one on
 * each. The best of many rounds, since neighbours only ever add to one.
 */
export async function speedHere(browser: Browser): Promise<number> {
  const page = await browser.newPage();
  const best = await page.evaluate(work);
  await page.close();
  return REFERENCE_MS / best;
}

/** Runs in the page: what scripts of a page do, some milliseconds of it a round. */
function work(): number {
  let best = Number.POSITIVE_INFINITY;
  let kept = 0;
  for (let round = 0; round < 60; round += 1) {
    const begun = performance.now();
    let seed = round;
    const items = Array.from({ length: 4_000 }, () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return { key: seed, name: `item ${seed % 97}` };
    });
    items.sort((a, b) => a.key - b.key);
    kept += (JSON.parse(JSON.stringify(items)) as unknown[]).length;
    best = Math.min(best, performance.now() - begun);
  }
  return kept > 0 ? best : Number.NaN;
}

async function slowDown(page: Page, { latency, bandwidth }: Device): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  const throughput = bandwidth / 8;
  await session.send("Network.emulateNetworkConditions", {
    offline: false,
    latency,
    downloadThroughput: throughput,
    uploadThroughput: throughput,
  });
}

/** Runs in the page, before anything of its own. */
function observe(): void {
  const paints = { fcp: 0, lcp: 0, cls: 0, shifts: [] as string[] };
  Object.assign(globalThis, { paints });
  type Shift = PerformanceEntry & {
    value: number;
    hadRecentInput: boolean;
    sources: readonly { node: Node | null }[];
  };
  new PerformanceObserver((list) => {
    paints.fcp = list.getEntriesByName("first-contentful-paint")[0]?.startTime ?? paints.fcp;
  }).observe({ type: "paint", buffered: true });
  new PerformanceObserver((list) => {
    for (const { startTime } of list.getEntries()) paints.lcp = startTime;
  }).observe({ type: "largest-contentful-paint", buffered: true });
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources, startTime } of list.getEntries() as Shift[]) {
      if (hadRecentInput) continue;
      paints.cls += value;
      const moved = sources.map(({ node }) => (node instanceof Element ? node.outerHTML.slice(0, 60) : "?"));
      paints.shifts.push(`${value.toFixed(4)} at ${Math.round(startTime)} ms: ${moved.join(" ")}`);
    }
  }).observe({ type: "layout-shift", buffered: true });
}

/** Until no request was under way for a second: by then all that a load draws has been drawn. */
async function settled(page: Page): Promise<void> {
  const under = new Set<Request>();
  let last = Date.now();
  const begin = (request: Request) => under.add(request);
  const end = (request: Request) => {
    under.delete(request);
    last = Date.now();
  };
  page.on("request", begin);
  page.on("requestfinished", end);
  page.on("requestfailed", end);
  for (const limit = Date.now() + MOST_MS; Date.now() < limit; ) {
    await page.waitForTimeout(250);
    if (under.size === 0 && Date.now() - last > 1_000) return;
  }
}

/** A request that never ends does not keep a load from being judged. */
const MOST_MS = 15_000;

function timesOf(events: readonly TraceEvent[], { fcp, lcp }: Paints, slower: number): Omit<Load, "cls"> {
  const paint = events.findLast(({ name }) => name === "firstContentfulPaint");
  if (!paint) throw new Error("the trace has no first paint");
  const start = paint.ts - fcp * 1_000;
  const tasks = events
    .filter(({ name, ph, ts, ...of }) => {
      const here = of.pid === paint.pid && of.tid === paint.tid && ts >= start;
      return here && ph === "X" && name === "ThreadControllerImpl::RunTask";
    })
    .map(({ ts, dur = 0, tdur = dur }) => ({
      end: (ts + dur - start) / 1_000,
      lasted: dur / 1_000,
      took: tdur / 1_000,
    }));
  /** When it would be on a processor so much slower, and without the neighbours that tasks waited for. */
  const moved = (moment: number) => {
    const before = tasks.filter(({ end }) => end <= moment);
    return before.reduce((sum, { lasted, took }) => sum + took * slower - lasted, moment);
  };
  const tbt = tasks
    .filter(({ end }) => end > fcp)
    .reduce((sum, { took }) => sum + Math.max(0, took * slower - BLOCKING), 0);
  return { fcp: moved(fcp), lcp: moved(Math.max(lcp, fcp)), tbt };
}

/** A task of more than so many milliseconds makes an answer to the reader late. */
const BLOCKING = 50;
