import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "../fixtures/bench.ts";
import { root } from "../fixtures/processes.ts";

/** The fields of a record that this test reads. */
interface BenchmarkRecord {
  readonly id: string;
  readonly timestamp: string;
  readonly measurements?: readonly {
    readonly subject: string;
    readonly statistics?: Readonly<Record<string, number>>;
    readonly parameters?: Readonly<Record<string, string | number>>;
  }[];
}

function recordsOf(path: string): readonly BenchmarkRecord[] {
  return JSON.parse(readFileSync(join(root, "benchmarks", path), "utf8")).records;
}

function mean(
  record: BenchmarkRecord | undefined,
  subject: string,
  parameters: Readonly<Record<string, string | number>>,
): number | undefined {
  return record?.measurements?.find(
    (one) =>
      one.subject === subject &&
      Object.entries(parameters).every(([name, value]) => one.parameters?.[name] === value),
  )?.statistics?.mean;
}

/** Three significant digits, without trailing zeros. */
function percent(value: number): string {
  return `+${Number(value.toPrecision(3))} %`;
}

const SCREENS = [
  { width: 360, height: 740 },
  { width: 1280, height: 720 },
] as const;

for (const viewport of SCREENS) {
  for (const colorScheme of ["light", "dark"] as const) {
    test(`the first screen of ${viewport.width} × ${viewport.height}, ${colorScheme}, answers the title from the records`, async ({
      bench,
      page,
    }) => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      await bench.open();
      const newest = recordsOf("reference/ephemeralml-b00bab1.json");
      const [outside = Number.NaN, inside = Number.NaN] = ["bare-metal", "enclave"].map((place) =>
        mean(
          newest.find(({ id }) => id === `b00bab1-${place}`),
          "inference.latency",
          { tokens: 128 },
        ),
      );
      const [ours, ...elsewhere] = readdirSync(join(root, "benchmarks", "results"))
        .flatMap((name) => recordsOf(`results/${name}`))
        .filter(({ id }) => id === "ours")
        .toSorted((a, b) => Number.parseInt(b.timestamp, 10) - Number.parseInt(a.timestamp, 10));
      const sealed = { of: "sealed request over bare engine", path: "sealed", tokens: 128 };
      const answer = page.getByRole("region", { name: "Cost of privacy" });
      const values = answer.locator(".answer-value");
      await expect(answer.locator("dt")).toHaveText([
        "Published on Nitro",
        "Ours, simulated enclave",
        "Ours on Nitro",
      ]);
      await expect(values).toHaveText([
        percent((inside / outside - 1) * 100),
        percent(mean(ours, "overhead", sealed) ?? Number.NaN),
        "not measured",
      ]);
      // The newest run is not the worst: the cost on each other machine is next to it.
      for (const other of elsewhere)
        await expect(answer).toContainText(percent(mean(other, "overhead", sealed) ?? Number.NaN));
      for (const value of await values.all()) {
        const box = await value.boundingBox();
        expect((box?.y ?? Number.NaN) + (box?.height ?? 0)).toBeLessThanOrEqual(viewport.height);
      }
      expect(await page.evaluate(() => scrollY)).toBe(0);
    });
  }
}

test("the cost of each published run is listed in time order, with the change", async ({ bench, page }) => {
  await bench.open();
  const table = page.getByRole("table", { name: /^Published runs, inside an enclave/ });
  await expect(table.locator("tbody tr")).toHaveText([
    /EphemeralML 3e7b676.*\+11\.8 %first run/,
    /215346.*\+17\.7 %\+5\.\d+ points/,
    /222448.*\+12\.8 %-4\.\d+ points/,
    /222802.*\+12\.4 %-0\.\d+ points/,
  ]);
  await expect(bench.chart("Cost of the published enclave over time").locator("rect.mark")).toHaveCount(4);
  const own = page.getByRole("table", { name: /^Our runs, sealed path/ });
  await expect(own.locator("tbody tr").first()).toContainText("first run");
});

test("figures of several machines in one chart are labelled, and peers come from the newest run", async ({
  bench,
  page,
}) => {
  await bench.open();
  // A published latency of another machine is not drawn next to ours.
  await expect(page.locator(".machine .legend")).not.toContainText(["Published"]);
  await bench.open("?view=latency");
  const chart = bench.chart("Inference latency");
  await expect(chart.locator("figcaption")).toContainText("From different machines");
  await expect(chart.locator("figcaption")).toContainText("compare only figures of one machine");
  const legend = await chart.locator(".legend li").allInnerTexts();
  const newest = legend.find((name) => name.startsWith("ONNX Runtime"))?.match(/, (.*)$/)?.[1];
  expect(newest).toBeDefined();
  for (const name of legend.filter((name) => /^(ONNX|sentence|Candle)/.test(name)))
    expect(name.endsWith(`, ${newest}`), name).toBe(true);
});

test("overlapping stages of a cold start are a timeline that ends at the total", async ({ bench }) => {
  await bench.open("?view=cold-start");
  const stages = { attestation_ms: 100, model_fetch_ms: 300, model_load_ms: 250, cold_start_total_ms: 400 };
  await bench.drop("cold.json", JSON.stringify({ environment: "enclave", title: "overlapping", stages }));
  await expect(bench.chart("Cold start")).toContainText("overlapping");
  await expect(bench.chart("Cold start").locator("figcaption")).toContainText("ran at the same time");
  const rects = await bench
    .chart("Cold start")
    .locator("rect.mark")
    .evaluateAll((marks) =>
      marks.map((mark) => {
        const { left, right, height, top } = mark.getBoundingClientRect();
        return { left, right, height, top };
      }),
    );
  const whole = Math.max(...rects.map(({ height }) => height));
  const lanes = rects.filter(({ height, left, right }) => right > left && height > 0 && height < whole - 4);
  expect(new Set(lanes.map(({ top }) => Math.round(top))).size, "lanes").toBeGreaterThan(1);
});

test("the suite's own memory has a separate chart", async ({ bench }) => {
  await bench.open("?view=memory");
  await expect(bench.chart("Memory of the benchmark suite")).toContainText("this suite");
  const product = bench.page.getByRole("figure", { name: /^Memory in / });
  await expect(product).toBeVisible();
  await expect(product).not.toContainText("this suite");
  await product.getByRole("button", { name: "Table" }).click();
  await expect(product.getByRole("row", { name: /enclave-server/ }).first()).toBeVisible();
});

test("each line of a chart has another stroke", async ({ bench }) => {
  await bench.open("?view=concurrency");
  const chart = bench.chart("Throughput, the model only");
  await expect(chart.locator("path.mark").first()).toBeVisible();
  const strokes = await chart
    .locator("path.mark")
    .evaluateAll((lines) => lines.map((line) => getComputedStyle(line).stroke));
  expect(strokes.length).toBeGreaterThan(3);
  expect(new Set(strokes).size).toBe(strokes.length);
});

test("the bars of compared runs share a zero", async ({ bench, page }) => {
  await bench.open("?view=compare");
  const zeros = page.locator("svg.diff");
  await expect(zeros.first()).toBeVisible();
  const lefts = await zeros.evaluateAll((all) =>
    all.map((one) => Math.round(one.getBoundingClientRect().left)),
  );
  expect(lefts.length).toBeGreaterThan(10);
  expect(new Set(lefts).size).toBe(1);
});

test("a file of another program is called so", async ({ bench }) => {
  await bench.open();
  await bench.drop("package.json", '{"name":"other","version":"1.0.0","title":"x"}');
  await expect(bench.refusal).toContainText("package.json is not a benchmark file.");
  await expect(bench.refusal).not.toContainText("required");
});

test("printed charts fit the paper, without controls", async ({ bench, page }) => {
  await page.addInitScript(() => {
    // A chart that was drawn for the window is printed as it is.
    const Observer = window.ResizeObserver;
    window.ResizeObserver = class extends Observer {
      constructor(callback: ResizeObserverCallback) {
        super((entries, observer) => {
          if (!matchMedia("print").matches) callback(entries, observer);
        });
      }
    };
  });
  await page.emulateMedia({ colorScheme: "dark" });
  await bench.open("?view=latency");
  const chart = bench.chart("Inference latency");
  await expect(chart.locator(".mark").first()).toBeVisible();
  const drawn = await chart.locator(".mark").count();
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  await page.setViewportSize({ width: 700, height: 1000 });
  for (const hidden of [".bench-tools", ".bench-views", ".chart-actions"])
    await expect(page.locator(hidden).first()).toBeHidden();
  const { surface, box } = await chart.evaluate((figure) => {
    const rect = (selector: string) => figure.querySelector(selector)?.getBoundingClientRect().toJSON();
    return { surface: rect("svg.recharts-surface"), box: rect(".picture") };
  });
  expect(surface.width).toBeLessThanOrEqual(box.width + 1);
  expect(surface.height).toBeLessThanOrEqual(box.height + 1);
  expect(await chart.locator(".mark").count(), "as on the screen").toBe(drawn);
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
});
