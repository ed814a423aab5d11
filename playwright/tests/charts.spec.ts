import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Locator, Page } from "@playwright/test";
import { expect, test, VIEWS } from "../fixtures/bench.ts";
import { root } from "../fixtures/processes.ts";

/** Screenshots, stored with the build. Fonts differ between machines, so they are not compared. */
const FOLDER = join(root, "target", "screenshots", "benchmarks");

/** Counts the marks of a chart and measures it; a chart without data or scale has no marks. */
async function measureMarks(
  chart: Locator,
): Promise<{ marks: number; outside: number; width: number; height: number }> {
  return chart.evaluate((figure) => {
    const surface = figure.querySelector("svg.recharts-surface")?.getBoundingClientRect();
    if (!surface) return { marks: 0, outside: 0, width: 0, height: 0 };
    const boxes = [...figure.querySelectorAll(".mark")].map((mark) => mark.getBoundingClientRect());
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
      const charts = page.getByRole("figure");
      if (least > 0) await expect(charts.first()).toBeVisible();
      const count = await charts.count();
      expect(count).toBeGreaterThanOrEqual(least);
      for (let index = 0; index < count; index += 1) {
        const chart = charts.nth(index);
        await chart.scrollIntoViewIfNeeded();
        await expect
          .poll(async () => (await measureMarks(chart)).marks, { message: `chart ${index} has marks` })
          .toBeGreaterThan(0);
        const { outside, width, height } = await measureMarks(chart);
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

/** The marks of each run in legends and tables, by the run's name. */
async function looks(page: Page): Promise<readonly (readonly [name: string, look: string])[]> {
  return page.locator(".bench-view").evaluate((view) =>
    [...view.querySelectorAll(".swatch")].map((swatch) => {
      const mark = swatch.querySelector("rect, circle");
      const texts = [...(swatch.parentElement?.childNodes ?? [])].filter(
        ({ nodeType }) => nodeType === Node.TEXT_NODE,
      );
      const name = texts.map(({ textContent }) => textContent?.trim()).find(Boolean) ?? "";
      const lines =
        swatch.querySelector('path[stroke-width="1.5"]')?.getAttribute("d")?.split("M").length ?? 0;
      return [name, `${mark?.getAttribute("stroke")} ${lines}`] as const;
    }),
  );
}

test("a run has one look in every chart, table and legend of every view, and ours has the accent", async ({
  bench,
  page,
}) => {
  const known = new Map<string, string>();
  for (const [view] of VIEWS) {
    // The colours of this view represent stages, not runs.
    if (view === "cold-start") continue;
    await bench.open(`?view=${view}`);
    // The overview uses shorter names for implementations, which two machines share.
    const shown = (await looks(page)).filter(([name]) => !/, same run$|m6i\.xlarge$/.test(name));
    for (const [name, look] of shown) {
      expect(known.get(name) ?? look, `${name} in ${view}`).toBe(look);
      known.set(name, look);
      expect(look.includes("--chart-1)"), `${name} in ${view}`).toBe(name.startsWith("Clearseal"));
    }
  }
  expect(known.size).toBeGreaterThan(12);
  await bench.open("?view=input-size");
  await page.getByRole("button", { name: "Table" }).click();
  for (const [name, look] of await looks(page)) expect(known.get(name), name).toBe(look);
});
