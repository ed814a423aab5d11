import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import AxeBuilder from "@axe-core/playwright";
import { expect, test, VIEWS } from "../fixtures/bench.ts";
import { root } from "../fixtures/processes.ts";
import { watchShift } from "../fixtures/shift.ts";

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Number of our published runs, each of another machine. */
const MACHINES = readdirSync(join(root, "benchmarks", "results")).length;

/** Collects errors of the page, except failed requests to the absent enclave. */
function collectErrors(page: import("@playwright/test").Page): string[] {
  const found: string[] = [];
  page.on("console", (message) => {
    const absent = /Failed to load resource/.test(message.text());
    if (message.type() === "error" && !absent) found.push(message.text());
  });
  page.on("pageerror", (error) => found.push(error.message));
  return found;
}

test("every view has a link, contacts no other origin and does not violate the policy", async ({
  bench,
  page,
}) => {
  const found = collectErrors(page);
  const elsewhere: string[] = [];
  await bench.open();
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(page.url()).origin)) elsewhere.push(request.url());
  });
  for (const [view] of VIEWS) {
    await bench.open(`?view=${view}`);
    await expect(bench.views.locator('[aria-current="true"]')).toHaveCount(1);
    await expect(page.locator(".bench-view")).not.toContainText("NaN");
    await expect(page.locator(".bench-view")).not.toContainText("undefined");
  }
  expect(found).toEqual([]);
  expect(elsewhere).toEqual([]);
});

for (const [colorScheme, width] of [
  ["light", 1280],
  ["dark", 360],
] as const) {
  for (const [view] of VIEWS) {
    test(`no violation of WCAG 2.2 AA in ${view}, ${colorScheme}, ${width} px`, async ({ bench, page }) => {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.setViewportSize({ width, height: 800 });
      await bench.open(`?view=${view}`);
      await bench.picker.locator("summary").click();
      const { violations } = await new AxeBuilder({ page }).withTags(RULES).analyze();
      const where = violations.map(({ id, nodes }) => ({ id, where: nodes.map(({ target }) => target) }));
      expect(where).toEqual([]);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(overflow, "nothing is wider than the window").toBeLessThanOrEqual(0);
    });
  }
}

test("the overview gives the guide's verdicts on the published enclaves", async ({ bench, page }) => {
  await bench.open();
  const newest = page.getByRole("region", { name: "EphemeralML b00bab1, Nitro enclave" });
  await expect(newest).toContainText("+12.6 %");
  await expect(newest).toContainText("Acceptable");
  await expect(newest).toContainText("7.05 s");
  await expect(newest).toContainText("Investigate");
});

test("a chart is also available as a table and as three kinds of file", async ({ bench, page }) => {
  await bench.open("?view=latency");
  const chart = bench.chart("Inference latency");
  await expect(chart.locator(".mark").first()).toBeVisible();
  await chart.getByRole("button", { name: "Table" }).click();
  await expect(chart.getByRole("row", { name: /^Mean/ })).toContainText("78.6");
  await chart.getByRole("button", { name: "Table" }).click();
  for (const [button, start] of [
    ["SVG", "<svg"],
    ["PNG", "\u0089PNG"],
    ["CSV", "Statistic,run"],
  ] as const) {
    const [saved] = await Promise.all([
      page.waitForEvent("download"),
      chart.getByRole("button", { name: button }).click(),
    ]);
    const content = await readFile(await saved.path());
    expect(content.toString("latin1").slice(0, start.length)).toBe(start);
    expect(saved.suggestedFilename()).toBe(`inference-latency.${button.toLowerCase()}`);
  }
});

test("runs can be chosen by keyboard, and the address keeps the choice", async ({ bench, page }) => {
  await bench.open("?view=latency");
  const shown = page.locator(".picker summary");
  const before = Number.parseInt((await shown.innerText()).replace(/^\D+/, ""), 10);
  await bench.picker.locator("summary").focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("Search runs").fill("b00bab1 enclave");
  await page.getByRole("checkbox", { name: /^EphemeralML b00bab1, Nitro enclave/ }).focus();
  await page.keyboard.press("Space");
  await expect(page.getByRole("checkbox", { name: /^EphemeralML b00bab1, Nitro enclave/ })).not.toBeChecked();
  const address = page.url();
  expect(address).toContain("runs=");
  await page.goto(address);
  await expect(shown).toContainText(`${before - 1} of`);
  await bench.view("Memory");
  await page.goBack();
  await expect(bench.heading).toHaveText("Latency");
});

test("two runs are compared, with their noise if it is stated", async ({ bench, page }) => {
  await bench.open(
    "?view=compare&compare=ephemeralml-b00bab1/b00bab1-bare-metal,ephemeralml-b00bab1/b00bab1-enclave",
  );
  const row = page.getByRole("row", { name: /^Inference, 128 tokens/ });
  await expect(row).toContainText("+12.6 %");
  await expect(row).toContainText("no spread stated");
  const record = (environment: string, mean: number) => ({
    environment,
    id: environment.replace("_", "-"),
    title: environment,
    inference: { latency_ms: { mean, stddev: 1, samples: 100 } },
  });
  await bench.drop("mine.json", JSON.stringify([record("bare_metal", 70), record("enclave", 80)]));
  await expect(page.getByText("mine.json: 2 runs read.")).toBeVisible();
  await page.getByLabel("From", { exact: true }).selectOption("mine/bare-metal");
  await page.getByLabel("To", { exact: true }).selectOption("mine/enclave");
  await expect(page.getByRole("row", { name: /^Inference/ })).toContainText("worse");
});

test("the overview starts with one sentence and one chart per machine, without ratios across machines", async ({
  bench,
  page,
}) => {
  await bench.open();
  const sentences = page.locator(".machine-sentence");
  await expect(sentences).toHaveCount(MACHINES);
  for (const sentence of await sentences.allInnerTexts()) {
    expect(sentence).toMatch(
      /^On the same .*: Clearseal [\d.]+ ms, ONNX Runtime [\d.]+ ms \([\d.]+ % slower\)/,
    );
  }
  await expect(page.locator(".machine-elsewhere")).toHaveText(
    Array.from({ length: MACHINES }, () => /^Published enclave: [\d.]+ ms, on another machine\.$/),
  );
  const table = page.getByRole("table", { name: /^Ours next to the newest published figures/ });
  const cold = table.getByRole("row", { name: /^Cold start of the enclave/ });
  await expect(cold).toContainText("Not comparable: ours starts processes");
  await expect(table).not.toContainText("×");
  // The guide never grades a simulated run as an enclave.
  await expect(page.getByRole("region", { name: /^Clearseal/ })).toHaveCount(0);
  await expect(page).toHaveTitle("Overview, Benchmarks · Clearseal");
});

test("the view of two runs starts with ours and ONNX Runtime of the same run", async ({ bench, page }) => {
  await bench.open("?view=compare");
  await expect(page.getByLabel("From", { exact: true }).locator(":checked")).toHaveText(
    /^ONNX Runtime, .*, 2026-/,
  );
  await expect(page.getByLabel("To", { exact: true }).locator(":checked")).toHaveText(
    /^Clearseal, .*, simulated, 2026-/,
  );
  const rows = page.locator(".bench-view tbody tr");
  const inference = page.getByRole("rowgroup").filter({
    has: page.getByRole("rowheader", { name: "Inference", exact: true }),
  });
  await expect(inference.getByRole("row", { name: "128 tokens" }).first()).toContainText("better");
  await expect(rows.filter({ hasText: "Inference by length" })).toHaveCount(0);
  await expect(page.locator(".bench-view")).not.toContainText(/e-\d/);
  await expect(rows.filter({ hasText: /\b1 thread,/ }).first()).toBeVisible();
});

test("missing views, runs and formats are reported", async ({ bench, page }) => {
  await bench.open("?view=nonsense");
  await expect(
    page.getByRole("alert").filter({ hasText: "There is no view called “nonsense”." }),
  ).toBeVisible();
  await bench.open("?view=compare&compare=mine/a,mine/b");
  await expect(page.getByRole("alert").filter({ hasText: "mine/a and mine/b" })).toContainText(
    "open the same file",
  );
  await bench.open("?view=latency&runs=mine/a,epyc-avx2/ours");
  await expect(page.getByRole("alert").filter({ hasText: "The link names mine/a, which is" })).toBeVisible();
  await bench.drop("foreign.json", '{"format":"someone.else/7","records":[]}');
  await expect(bench.refusal).toContainText("someone.else/7");
});

test("many opened files never displace published runs and ours", async ({ bench, page }) => {
  await bench.open();
  const record = (id: string, title: string) => ({
    environment: "bare_metal",
    id,
    title,
    inference: { latency_ms: { mean: 70 } },
  });
  const file = (name: string) => ({
    name: `${name}.json`,
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify(Array.from({ length: 6 }, (_, index) => record(`${index}`, name)))),
  });
  await bench.file.setInputFiles([file("one"), file("two"), file("three")]);
  for (const name of ["one", "two", "three"]) {
    await expect(page.getByText(`${name}.json: 6 runs read.`), "each file is reported").toBeVisible();
  }
  const shown = page.getByRole("table", { name: /^Runs that are shown/ });
  await expect(shown.getByRole("row")).toHaveCount(9);
  await expect(shown).toContainText("three.json");
  await expect(shown).toContainText("Clearseal");
  await expect(shown).toContainText("EphemeralML");
  await bench.drop("three.json", JSON.stringify([record("0", "other")]));
  await expect(page.getByText(/three.json: 1 run read\..*replaces the open file/)).toBeVisible();
});

test("an open file is not opened again, and a file named like one of the page's own is separate", async ({
  bench,
  page,
}) => {
  await bench.open();
  const content = JSON.stringify({ environment: "bare_metal", id: "ours", title: "Foreign" });
  await bench.drop("epyc-avx2.json", content);
  await expect(page.getByText(/epyc-avx2.json: 1 run read.*both are shown/)).toBeVisible();
  await bench.drop("copy.json", content);
  await expect(page.getByText("copy.json is open already, as epyc-avx2-opened.")).toBeVisible();
  const shown = page.getByRole("table", { name: /^Runs that are shown/ });
  await expect(shown.getByRole("row", { name: /^Foreign/ })).toHaveCount(1);
  await expect(page.locator(".machine-sentence"), "the page's own runs stay").toHaveCount(MACHINES);
});

test("nothing visible moves while the figures load", async ({ bench, page }) => {
  const shift = await watchShift(page);
  await bench.open();
  await page.waitForTimeout(1_000);
  expect(await shift(), "cumulative layout shift").toBeLessThan(0.1);
});

test("a logarithmic axis has dots instead of bars", async ({ bench }) => {
  await bench.open("?view=transport");
  const chart = bench.chart("Round trip");
  await expect(chart.locator("circle.mark").first()).toBeVisible();
  await expect(chart.locator("rect.mark")).toHaveCount(0);
});

test("a file of the published format becomes a run", async ({ bench, page }) => {
  await bench.open("?view=cold-start");
  await bench.drop(
    "enclave_results.json",
    '{"environment":"enclave","hardware":"m6i.xlarge","commit":"abc","stages":{"model_fetch_ms":3000,"cold_start_total_ms":3100},"vsock":{"upload_throughput_mbps":219.4}}',
  );
  await expect(page.getByText("enclave_results.json: 1 run read.")).toBeVisible();
  await expect(bench.chart("Cold start")).toContainText("enclave_results.json, 1");
});

const MALFORMED: readonly (readonly [string, string, string])[] = [
  [
    "text for a number",
    '{"environment":"enclave","stages":{"attestation_ms":"fast"}}',
    "$.stages.attestation_ms",
  ],
  ["no JSON", "not json at all", "this is not JSON"],
  ["NaN", '{"environment":"enclave","stages":{"attestation_ms":NaN}}', "this is not JSON"],
  ["a name twice", '{"environment":"enclave","environment":"sgx"}', "$.environment"],
  [
    "a unit that does not fit",
    '{"environment":"enclave","measurements":[{"subject":"inference.latency","unit":"MB","statistics":{"mean":1}}]}',
    "$.measurements[0].unit",
  ],
  ["a bottomless list", "[".repeat(200_000), "levels deep"],
];
for (const [name, content, expected] of MALFORMED) {
  test(`a file with ${name} is rejected, and the message names the field`, async ({ bench, page }) => {
    const found = collectErrors(page);
    await bench.open();
    await bench.drop("bad.json", content);
    await expect(bench.refusal).toContainText("bad.json was not read.");
    await expect(bench.refusal).toContainText(expected);
    await expect(bench.heading).toBeVisible();
    expect(found).toEqual([]);
  });
}

test("content of a hostile file is shown only as text", async ({ bench, page }) => {
  await bench.open();
  const evil = '<img src=x onerror="window.hacked=1">';
  const record = {
    environment: "enclave",
    title: evil,
    commit: evil,
    notes: [evil],
    inference: { latency_ms: { mean: 1e308, min: 0, max: 1e308 } },
    measurements: [
      {
        subject: "cost.per_million",
        unit: "USD",
        statistics: { value: -1 },
        parameters: { constructor: evil },
      },
    ],
  };
  await bench.drop("evil.json", JSON.stringify(record));
  await expect(page.getByText("evil.json: 1 run read.")).toBeVisible();
  for (const view of ["Overview", "Latency", "Cost", "Compare runs"]) await bench.view(view);
  await bench.view("Overview");
  await expect(page.getByRole("table", { name: /^Runs that are shown/ })).toContainText(evil);
  expect(await page.evaluate(() => "hacked" in window)).toBe(false);
});

test("a file that is too large is rejected before it is read", async ({ bench }) => {
  await bench.open();
  await bench.drop("huge.json", Buffer.alloc(32 * 1024 * 1024 + 1, " "));
  await expect(bench.refusal).toContainText("at most 32 are read");
});

test("a failure to load the figures is reported, and can be retried", async ({ bench, page }) => {
  let broken = true;
  await page.route(/aggregation-.*\.json/, (route) => (broken ? route.abort() : route.continue()));
  await page.goto(bench.address);
  await expect(page.getByRole("alert").filter({ hasText: "could not be loaded" })).toBeVisible();
  broken = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(bench.heading).toBeVisible();
});

test("long lists have headings, in charts and in tables", async ({ bench, page }) => {
  await bench.open("?view=crypto");
  const chart = bench.chart("Primitives");
  const headings = ["HPKE", "Key pairs", "Signatures", "A whole inference", "AEAD"];
  await expect(chart.locator('tspan[font-weight="600"]')).toHaveText(headings);
  await chart.getByRole("button", { name: "Table" }).click();
  await expect(chart.getByRole("rowheader").filter({ hasText: /^(HPKE|AEAD)$/ })).toHaveText([
    "HPKE",
    "AEAD",
  ]);
  await bench.view("Other platforms");
  const platforms = page.getByRole("table", { name: "All rows, with sources" });
  await expect(platforms.locator('th[scope="rowgroup"]').first()).toHaveText("AWS");
  await bench.picker.locator("summary").click();
  await expect(bench.picker.getByRole("heading", { level: 2 }).first()).toBeVisible();
  // A short list has no headings.
  await bench.view("Latency");
  await expect(bench.chart("Inference latency").locator('tspan[font-weight="600"]')).toHaveCount(0);
});
