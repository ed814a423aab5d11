import { writeFile } from "node:fs/promises";
import { expect, test, VIEWS } from "../fixtures/bench.ts";
import { type Step, type Task, tasksOf } from "../fixtures/tasks.ts";

// Playwright's own trace takes snapshots in the measured thread.
test.use({ trace: "off" });

/** Maximum duration of a task (web.dev: long tasks). */
const LONG_MS = 50;
/** On a busy machine some task is long, but a different one each time. */
const ATTEMPTS = 3;

test("ten thousand records do not block the page", async ({ bench, page }, info) => {
  test.setTimeout(120_000);
  const records = Array.from({ length: 10_000 }, (_, index) => ({
    environment: index % 2 ? "enclave" : "bare_metal",
    id: `run-${index}`,
    title: `Run number ${index}`,
    inference: { latency_ms: { mean: 80 + (index % 17), p50: 80, p95: 90, p99: 95 } },
  }));
  // Passes a path, because the page's thread would have to unpack content.
  const file = info.outputPath("many.json");
  await writeFile(file, JSON.stringify(records));

  // Uses plain selectors, because Playwright evaluates roles and texts in the measured thread, element by element.
  const listed = page.locator(".picker-list li");
  const search = page.locator(".picker input[type=search]");
  const table = page.locator(".chart-actions button").first();
  const steps: readonly Step[] = [
    [
      "reading the file",
      async () => {
        await bench.file.setInputFiles(file);
        await expect(page.locator(".drop [role=status] p")).toContainText("many.json: 10,000 runs read.");
      },
    ],
    ["opening the list", () => bench.picker.locator("summary").click()],
    ["leaving out a run", () => listed.locator("input:checked").first().click()],
    [
      "searching",
      async () => {
        await search.pressSequentially("number 9999");
        await expect(listed).toHaveCount(1);
      },
    ],
    ["choosing a run", () => listed.locator("input").click()],
    ["clearing the search", () => search.fill("")],
    ["the suggestion", () => page.locator(".picker-head button").click()],
    ...[...VIEWS, ...VIEWS.slice(1, 2)].map(([view]): Step => {
      const link = bench.views.locator(`a[href*="view=${view}"]`);
      return [`the view ${view}`, () => link.click()];
    }),
    ["a chart as a table", () => table.click()],
    ["a chart again", () => table.click()],
    [
      "scrolling",
      async () => {
        await page.mouse.move(640, 600);
        for (let turn = 0; turn < 10; turn += 1) await page.mouse.wheel(0, 200);
      },
    ],
  ];

  const best = new Map<string, Task>();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    await bench.open("?view=latency");
    await page.waitForLoadState("networkidle");
    const tasks = await tasksOf(page, steps);
    process.stdout.write(`  10,000 records: ${summary(tasks)}\n`);
    for (const [step] of steps) {
      const worst = longestOf(tasks.filter((task) => task.step === step));
      const known = best.get(step);
      if (!known || worst.processorMs < known.processorMs) best.set(step, worst);
    }
    if (blockingSteps(best).length === 0) break;
  }
  expect(blockingSteps(best), "steps that block the page each time").toEqual([]);

  const rows = await page.locator(".picker-list li, .bench-view tr").count();
  expect(rows, "a bounded number of rows is drawn").toBeLessThan(200);
  const elements = await page.evaluate(() => document.querySelectorAll("*").length);
  expect(elements, "a bounded number of elements is drawn").toBeLessThan(4_000);
});

/** Compares processor time, because waiting for a processor is not caused by the page. */
function longestOf(tasks: readonly Task[]): Task {
  return tasks.reduce((longest, task) => (task.processorMs > longest.processorMs ? task : longest), {
    step: "nothing",
    ms: 0,
    processorMs: 0,
  });
}

function summary(tasks: readonly Task[]): string {
  const long = tasks.filter(({ ms }) => ms > LONG_MS);
  const longest = Math.round(Math.max(...tasks.map(({ ms }) => ms)));
  const { step, processorMs } = longestOf(tasks);
  return `${long.length} tasks over ${LONG_MS} ms, the longest ${longest} ms; at most ${Math.round(processorMs)} ms of a processor, in ${step}`;
}

function blockingSteps(best: ReadonlyMap<string, Task>): readonly string[] {
  return [...best.values()]
    .filter(({ processorMs }) => processorMs > LONG_MS)
    .map(({ step, processorMs }) => `${step}: ${Math.round(processorMs)} ms of a processor`);
}
