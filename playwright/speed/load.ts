import type { Browser, Page, Request } from "@playwright/test";
import type { TraceEvent } from "../fixtures/trace.ts";
import type { Load } from "./score.ts";

/** A simulated device. */
export interface Device {
  readonly viewport: { readonly width: number; readonly height: number };
  readonly deviceScaleFactor: number;
  readonly isMobile: boolean;
  /** Factor by which its processor is slower than that of the machine of the budget. */
  readonly slower: number;
  /** Latency of each request in milliseconds. */
  readonly latency: number;
  /** Bits per second in each direction. */
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
 * Loads a page once with an empty cache on a throttled network. The processor is not throttled: the processor time of the
 * page's thread is multiplied instead, so that other load does not count. `speed` is the result of {@link measureSpeed}.
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

/** Milliseconds per round of `work` on the machine of the budget, an AMD EPYC of 2024. */
const REFERENCE_MS = 1.9;

/**
 * Factor by which this machine is faster than the machine of the budget, to make a budget in milliseconds portable. Takes the
 * best of many rounds, because other load only slows rounds down.
 */
export async function measureSpeed(browser: Browser): Promise<number> {
  const page = await browser.newPage();
  const best = await page.evaluate(work);
  await page.close();
  return REFERENCE_MS / best;
}

/** Runs in the page: work similar to a page's scripts, some milliseconds per round. */
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

/** Runs in the page before its own scripts. */
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

/** Waits until no request was in flight for a second, when the load has rendered everything. */
async function settled(page: Page): Promise<void> {
  const inFlight = new Set<Request>();
  let last = Date.now();
  const begin = (request: Request) => inFlight.add(request);
  const end = (request: Request) => {
    inFlight.delete(request);
    last = Date.now();
  };
  page.on("request", begin);
  page.on("requestfinished", end);
  page.on("requestfailed", end);
  for (const limit = Date.now() + MAX_WAIT_MS; Date.now() < limit; ) {
    await page.waitForTimeout(250);
    if (inFlight.size === 0 && Date.now() - last > 1_000) return;
  }
}

/** Limit of the wait, for requests that never end. */
const MAX_WAIT_MS = 15_000;

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
  /** Converts a time to the slower processor, without waiting for other load. */
  const moved = (moment: number) => {
    const before = tasks.filter(({ end }) => end <= moment);
    return before.reduce((sum, { lasted, took }) => sum + took * slower - lasted, moment);
  };
  const tbt = tasks
    .filter(({ end }) => end > fcp)
    .reduce((sum, { took }) => sum + Math.max(0, took * slower - BLOCKING_MS), 0);
  return { fcp: moved(fcp), lcp: moved(Math.max(lcp, fcp)), tbt };
}

/** Milliseconds from which a task blocks input. */
const BLOCKING_MS = 50;
