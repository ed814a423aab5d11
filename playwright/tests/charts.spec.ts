import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test as base, expect, type Locator } from "@playwright/test";
import { freePort, ready, root, startProxy } from "../fixtures/processes.ts";
import { BenchmarksPage } from "../pages/benchmarks.ts";

/** Every view, and how many charts it has to draw with what is shown at first; the others are tables. */
const VIEWS: readonly (readonly [string, number])[] = [
  ["overview", 0],
  ["latency", 1],
  ["cold-start", 1],
  ["concurrency", 1],
  ["input-size", 1],
  ["memory", 1],
  ["transport", 1],
  ["crypto", 1],
  ["cost", 1],
  ["platforms", 1],
  ["aggregation", 1],
  ["compare", 0],
  ["published", 0],
];

/** What a reader sees, kept beside the build. Fonts differ from machine to machine, so pixels are no baseline. */
const FOLDER = join(root, "target", "screenshots", "benchmarks");

const test = base.extend<{ bench: BenchmarksPage }>({
  bench: async ({ page }, use) => {
    const port = await freePort();
    const proxy = startProxy(port, `tcp:127.0.0.1:${await freePort()}`);
    const url = `http://127.0.0.1:${port}`;
    await ready(`${url}/`, [proxy]);
    await use(new BenchmarksPage(page, url));
    await proxy.stop();
  },
});

/** Marks that stand for figures, and how much of the plot they span; a chart that lost its data or its scale has none. */
async function drawn(
  chart: Locator,
): Promise<{ marks: number; outside: number; width: number; height: number }> {
  return chart.evaluate((figure) => {
    const surface = figure.querySelector("svg.recharts-surface")?.getBoundingClientRect();
    if (!surface) return { marks: 0, outside: 0, width: 0, height: 0 };
    const selector =
      ".recharts-bar-rectangle path, .recharts-line-curve, .recharts-dot, .recharts-scatter-symbol path";
    const boxes = [...figure.querySelectorAll(selector)].map((mark) => mark.getBoundingClientRect());
    const marks = boxes.filter(({ width, height }) => width + height > 0);
    const outside = marks.filter(
      ({ left, right, top, bottom }) =>
        left < surface.left - 2 ||
        right > surface.right + 2 ||
        top < surface.top - 2 ||
        bottom > surface.bottom + 2,
    );
    return { marks: marks.length, outside: outside.length, width: surface.width, height: surface.height };
  });
}

for (const colorScheme of ["light", "dark"] as const) {
  for (const [view, least] of VIEWS) {
    test(`the charts of ${view} are drawn whole, ${colorScheme}`, async ({ bench, page }, info) => {
      mkdirSync(FOLDER, { recursive: true });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await bench.open(`?view=${view}`);
      const charts = page.getByRole("figure").filter({ has: page.locator("svg.recharts-surface") });
      if (least > 0) await expect(charts.first()).toBeVisible();
      const count = await charts.count();
      expect(count).toBeGreaterThanOrEqual(least);
      for (let index = 0; index < count; index += 1) {
        const chart = charts.nth(index);
        await chart.scrollIntoViewIfNeeded();
        await expect
          .poll(async () => (await drawn(chart)).marks, { message: `chart ${index} has marks` })
          .toBeGreaterThan(0);
        const { outside, width, height } = await drawn(chart);
        expect(outside, `marks of chart ${index} that leave it`).toBe(0);
        expect(Math.min(width, height), `size of chart ${index}`).toBeGreaterThan(100);
        const path = join(FOLDER, `${view}-${index}-${colorScheme}.png`);
        await info.attach(`${view} ${index}`, {
          body: await chart.screenshot({ path }),
          contentType: "image/png",
        });
      }
      await page.screenshot({ path: join(FOLDER, `${view}-${colorScheme}.png`), fullPage: true });
    });
  }
}

test("how long ten thousand records block the page is said", async ({ bench, page }) => {
  const records = Array.from({ length: 10_000 }, (_, index) => ({
    environment: index % 2 ? "enclave" : "bare_metal",
    id: `run-${index}`,
    title: `Run number ${index}`,
    inference: { latency_ms: { mean: 80 + (index % 17), p50: 80, p95: 90, p99: 95 } },
  }));
  await bench.open("?view=latency");
  await page.evaluate(() => {
    const tasks: number[] = [];
    let given = Number.POSITIVE_INFINITY;
    Object.assign(window, { tasks });
    // The task in which the test makes its file and hands it over is the test's own.
    const note = ({ timeStamp }: Event) => {
      given = timeStamp;
    };
    window.addEventListener("change", note, { capture: true });
    new PerformanceObserver((list) => {
      const after = list.getEntries().filter(({ startTime }) => startTime > given);
      tasks.push(...after.map(({ duration }) => duration));
    }).observe({ type: "longtask" });
  });
  await bench.drop("many.json", JSON.stringify(records));
  await expect(page.getByText("many.json: 10,000 runs read.")).toBeVisible();
  await bench.picker.locator("summary").click();
  await page.getByLabel("Search runs").pressSequentially("number 9999");
  await expect(page.locator(".picker-list li")).toHaveCount(1);
  await bench.view("Memory");
  await bench.view("Latency");
  // Times are the machine's: a reader of the log sees a stutter.
  const tasks = await page.evaluate(() => (window as unknown as { tasks: number[] }).tasks);
  const longest = Math.round(Math.max(0, ...tasks));
  // biome-ignore lint/suspicious/noConsole: said, and asserted by nobody.
  console.log(`10,000 records: ${tasks.length} tasks above 50 ms, the longest ${longest} ms`);
});
