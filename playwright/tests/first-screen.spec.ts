import type { Page, Route } from "@playwright/test";
import { watchShift } from "../fixtures/shift.ts";
import { expect, test } from "../fixtures/stack.ts";

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 360, height: 800 };

for (const viewport of [DESKTOP, PHONE]) {
  test(`text box and Embed are on the first screen of ${viewport.width} × ${viewport.height}`, async ({
    embed,
    page,
  }) => {
    await page.setViewportSize(viewport);
    await embed.open();
    await expect(embed.verdict).toHaveText("SIMULATED");
    await embed.text.fill("one line");
    for (const element of [embed.seal, embed.text, embed.submit]) {
      const box = await element.boundingBox();
      expect(box?.y).toBeGreaterThanOrEqual(0);
      expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(viewport.height);
    }
    expect(await page.evaluate(() => scrollY)).toBe(0);
  });
}

const PROBLEM = {
  status: 413,
  contentType: "application/problem+json",
  // A host's code has at most 64 characters. On a narrow page, it takes a separate line.
  body: JSON.stringify({ code: "A".repeat(64) }),
};

interface Outcome {
  readonly what: string;
  readonly verdict: string;
  /** Answers the page's request for the document. */
  readonly respond: (route: Route) => Promise<void>;
  /** Neither the service nor the page has a policy. */
  readonly noPolicy?: true;
}

/** All outcomes of the first check, with their verdicts. */
const OUTCOMES: readonly Outcome[] = [
  { what: "a verdict", verdict: "SIMULATED", respond: (route) => route.continue() },
  { what: "no connection", verdict: "Unreachable", respond: (route) => route.abort("connectionrefused") },
  {
    what: "a static host",
    verdict: "Unreachable",
    respond: (route) => route.fulfill({ status: 502, body: "" }),
  },
  { what: "a long code", verdict: "Unreachable", respond: (route) => route.fulfill(PROBLEM) },
  { what: "a refusal", verdict: "Refused", respond: (route) => route.fulfill({ body: Buffer.from([0xa0]) }) },
  {
    what: "a refusal without a policy",
    verdict: "Refused",
    respond: (route) => route.continue(),
    noPolicy: true,
  },
];

/** Makes the first check end with `outcome`, after `asked`. */
async function routeOutcome(
  page: Page,
  { respond, noPolicy }: Outcome,
  asked?: Promise<void>,
): Promise<void> {
  await page.route("**/v1/attestation*", async (route) => {
    await asked;
    await respond(route);
  });
  if (noPolicy) await page.route("**/v1/development-policy", (route) => route.fulfill({ status: 404 }));
}

for (const outcome of OUTCOMES) {
  const { what, verdict } = outcome;
  test(`nothing below the seal moves after ${what}`, async ({ embed, page }) => {
    for (const width of [1280, 1000, 720, 360]) {
      await page.setViewportSize({ width, height: 900 });
      let answer = () => {};
      const asked = new Promise<void>((resolve) => {
        answer = resolve;
      });
      await routeOutcome(page, outcome, asked);
      await embed.open();
      await expect(embed.verdict).toHaveText("Checking");
      const before = await embed.text.boundingBox();
      answer();
      await expect(embed.verdict).toHaveText(verdict);
      expect(await embed.text.boundingBox(), `${width} px wide`).toEqual(before);
      await page.unrouteAll();
    }
  });
}

test("the opened seal shows the whole message that the closed one clamps", async ({ embed, page }) => {
  await page.setViewportSize({ width: 360, height: 800 });
  await page.route("**/v1/attestation*", (route) => route.fulfill({ status: 502, body: "" }));
  await embed.open();
  await expect(embed.verdict).toHaveText("Unreachable");
  await expect(embed.seal.locator(".seal-next")).toBeVisible();
  const cut = () =>
    embed.seal
      .locator(".seal-text")
      .evaluate(({ scrollHeight, clientHeight }) => scrollHeight > clientHeight);
  expect(await cut()).toBe(true);
  await embed.openSeal();
  expect(await cut()).toBe(false);
});

for (const viewport of [DESKTOP, PHONE]) {
  for (const outcome of OUTCOMES) {
    const { what, verdict } = outcome;
    test(`a load causes no visible layout shift, ${viewport.width} px: ${what}`, async ({ embed, page }) => {
      await page.setViewportSize(viewport);
      const shift = await watchShift(page);
      await routeOutcome(page, outcome);
      await embed.open();
      await expect(embed.verdict).toHaveText(verdict);
      await page.waitForTimeout(500);
      expect(await shift(), "cumulative layout shift").toBeLessThanOrEqual(0.01);
    });
  }
}

test("an opened seal shows the details, and keeps the focus on its button", async ({ embed, page }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await expect(embed.seal.locator(".statements")).toHaveCount(0);
  await embed.openSeal();
  await expect(embed.seal.locator(".statements dt")).toHaveCount(3);
  await expect(page.getByRole("button", { name: "Close the seal" })).toBeFocused();
});

test("Ctrl+Enter embeds, and does nothing without text", async ({ embed, page, stack }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.text.press("Control+Enter");
  expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
  await embed.text.fill("one line");
  await embed.text.press("Control+Enter");
  await expect(embed.receipt).toBeVisible();
  await expect(embed.text).toHaveValue("one line");
  await expect(page).toHaveTitle("Embed · Clearseal");
});

test("texts longer than the model reads are reported before sending, and in every view", async ({
  embed,
  page,
}) => {
  const long = Array.from({ length: 300 }, () => "word").join(" ");
  const odd = Array.from({ length: 150 }, () => "internationalisation").join(" ");
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.text.fill(`The cat sleeps.\nA kitten naps.\n${long}\n${odd}`);
  await expect(page.locator(".submit .cut-note")).toContainText(
    /1 of 4 texts is longer than the 256 tokens .* and 1 more may be/,
  );
  await embed.submit.click();
  const result = page.getByRole("region", { name: "Result" });
  // According to the enclave's exact count, both were cut.
  await expect(result.locator(".cut-note")).toContainText("2 of 4 texts were longer than the model reads");
  await expect(result.locator(".cut-note")).toContainText("item 3, 4");
  await expect(result.locator(".ranking .badge", { hasText: "cut" }).first()).toBeVisible();
  await page.getByRole("tab", { name: "Map" }).click();
  await page.getByRole("application").press("End");
  await expect(result.locator(".map-reading .badge")).toHaveText("cut");
  await page.getByRole("tab", { name: "Vectors" }).click();
  await expect(result.locator(".vectors .badge")).toHaveCount(2);
});

test("the estimate for a text at the limit matches the enclave", async ({ embed, page }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  const words = (count: number) => Array.from({ length: count }, () => "word").join(" ");
  await embed.text.fill(`${words(254)}\n${words(255)}`);
  await expect(page.locator(".submit .cut-note")).toContainText("1 of 2 texts is longer");
  await embed.submit.click();
  await expect(page.getByRole("region", { name: "Result" }).locator(".cut-note")).toContainText(
    "1 of 2 texts were longer",
  );
});

test("a query is sealed, and the tab ranks the embedded texts", async ({ embed, page, stack }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed("The cat sleeps on the radiator.\nRevenue fell in the third quarter.\nA kitten naps.");
  await expect(embed.receipt).toBeVisible();
  await page.getByLabel("Search these 3 texts by meaning").fill("quarterly sales");
  await page.keyboard.press("Enter");
  const found = page.getByRole("search").locator(".ranking li");
  await expect(found).toHaveCount(3);
  await expect(found.first()).toContainText("Revenue fell");
  expect(stack.host.requests("/v1/gateway")).toHaveLength(2);
  expect(stack.back.recorded.includes("quarterly sales")).toBe(false);
  await expect(page.getByRole("region", { name: "Receipts" }).getByRole("listitem")).toHaveCount(2);
});

test("texts and vectors stay in the browser only on request", async ({ embed, page }) => {
  const databases = () => page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name));
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed("The cat sleeps.\nA kitten naps.");
  await expect(embed.receipt).toBeVisible();
  expect(await databases()).toEqual([]);
  await page.getByLabel("Keep these texts and vectors").check();
  await expect.poll(databases).toEqual(["clearseal.embedded"]);
  page.on("dialog", (dialog) => void dialog.accept());
  await page.reload();
  const since = page.getByText(/^Kept in this browser since/);
  await expect(since).toBeVisible();
  // This tab sent them, before the reload.
  await expect(since).not.toContainText("This tab has sent none of it");
  const other = await page.context().newPage();
  await other.goto(page.url());
  await expect(other.getByText(/^Kept in this browser since/)).toContainText("This tab has sent none of it");
  await other.close();
  await expect(page.getByRole("tab", { name: "Similarity" })).toBeVisible();
  await page.getByLabel("Keep these texts and vectors").uncheck();
  await expect.poll(databases).toEqual([]);
});

test("bad lines of a JSONL file can be skipped", async ({ embed, page }) => {
  await embed.open();
  await page.getByLabel("Add files").setInputFiles({
    name: "notes.jsonl",
    mimeType: "application/jsonl",
    buffer: Buffer.from('{"text":"one"}\n{oops}\n{"text":"two"}\n'),
  });
  await expect(page.getByRole("alert").filter({ hasText: "Line 2 is not JSON." })).toBeVisible();
  await page.getByRole("button", { name: "Skip 1 line, take 2 records" }).click();
  await expect(page.locator(".file")).toContainText("2 records, 1 line skipped");
  await expect(page.locator(".text-count")).toHaveText("2 items");
});

test("Home and End move through the similarity matrix", async ({ embed, page }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed("The cat sleeps.\nA kitten naps.\nRevenue fell.");
  const picture = page.getByRole("application", { name: /^Similarity/ });
  const cursor = picture.locator(".matrix-cursor");
  await picture.press("End");
  await expect(cursor).toHaveAttribute("x", "2");
  await expect(cursor).toHaveAttribute("y", "0");
  await picture.press("Control+End");
  await expect(cursor).toHaveAttribute("y", "2");
  await picture.press("Home");
  await expect(cursor).toHaveAttribute("x", "0");
});

test("a route that cannot be loaded offline reports it, and the text stays", async ({ embed, page }) => {
  // The page loads them after the verdict.
  await page.route(/assets\/(Audit|Dashboard)-/, (route) => route.abort());
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.text.fill("kept");
  await page.context().setOffline(true);
  for (const [route, what] of [
    ["Audit", "The auditor"],
    ["Benchmarks", "The dashboard"],
  ] as const) {
    await page.getByRole("link", { name: route, exact: true }).click();
    await expect(page.getByRole("alert").filter({ hasText: `${what} could not be shown.` })).toContainText(
      "There is no network",
    );
  }
  await page.getByRole("link", { name: "Embed", exact: true }).click();
  await expect(embed.text).toHaveValue("kept");
});
