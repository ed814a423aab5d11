import AxeBuilder from "@axe-core/playwright";
import { test as base, expect } from "@playwright/test";
import { Models } from "../fixtures/models.ts";
import { Stack } from "../fixtures/stack.ts";
import { EmbedPage } from "../pages/embed.ts";

/** A service with two embedding models and a cross-encoder. */
const test = base.extend<{ embed: EmbedPage }, { stack: Stack }>({
  stack: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the fixture's dependencies from this pattern.
    async ({}, use) => {
      const models = new Models();
      const options = [models.embedding("first"), models.embedding("second"), models.reranking("ranker")];
      const stack = await Stack.start(options.flat());
      await use(stack);
      await stack.close();
      models.remove();
    },
    { scope: "worker" },
  ],
  embed: async ({ page, stack }, use) => {
    await use(new EmbedPage(page, stack.url));
  },
});

const LINES = ["a key", "the key is released to the enclave", "a cat sleeps", "two dogs"];

test("the page embeds with the model that the user chooses, and the receipt names it", async ({
  embed,
  page,
  stack,
}) => {
  await embed.open();
  const choice = page.getByLabel("Model", { exact: true });
  await expect(choice).toHaveValue("first");
  await expect(choice.locator("option")).toHaveText(["first", "second"]);
  await expect(choice).toHaveAccessibleDescription(
    "Vectors of 32 numbers. Reads 64 tokens of a text. Has the prompts document, query; this page sends texts without one.",
  );
  await embed.embed(LINES.join("\n"));
  await expect(embed.receipt).toContainText("the enclave ran first on 4 items");

  await choice.focus();
  await page.keyboard.press("ArrowDown");
  await expect(choice).toHaveValue("second");
  await expect(choice).toHaveAccessibleDescription(/The trust policy demands first\./);
  // The vectors of the first model can still be searched: its session is open.
  const search = page.getByRole("search");
  await search.getByRole("searchbox").fill("keys");
  await search.getByRole("button", { name: "Search", exact: true }).click();
  await expect(search.getByRole("listitem")).toHaveCount(4);

  await embed.submit.click();
  await expect(embed.receipt).toContainText("the enclave ran second on 4 items");
  await expect(embed.receipt.locator(".receipt-verdict")).toHaveText("SIMULATED");
  expect(stack.back.recorded.includes("a cat sleeps")).toBe(false);
});

test("more texts than one request holds go over a channel to the chosen model", async ({ embed, page }) => {
  await embed.open();
  await page.getByLabel("Model", { exact: true }).selectOption("second");
  await embed.embed(Array.from({ length: 300 }, (_, at) => `text ${at}`).join("\n"));
  await expect(embed.receipt).toContainText("the enclave ran second");
});

test("a search is reranked, and shows both scores and their proof", async ({ embed, page, stack }) => {
  await embed.open();
  await embed.embed(LINES.join("\n"));
  const search = page.getByRole("search");
  await search.getByRole("searchbox").fill("how are keys released?");
  await search.getByRole("checkbox", { name: /^Rerank the nearest 20 with ranker/ }).check();
  await search.getByRole("button", { name: "Search", exact: true }).click();

  await expect(search).toContainText(/SIMULATED: every score is proved by receipt no\. \d+ of ranker\./);
  const table = search.getByRole("table", { name: "Texts in the order of their scores" });
  await expect(table.getByRole("columnheader")).toHaveText(["Score", "Cosine", "Text"]);
  const rows = table.getByRole("row");
  await expect(rows).toHaveCount(LINES.length + 1);
  const scores = await rows.locator("td:first-child").allTextContents();
  expect(scores.map(Number)).toEqual(scores.map(Number).toSorted((a, b) => b - a));
  const texts = await table.getByRole("button").allTextContents();
  expect(texts.toSorted()).toEqual(LINES.toSorted());
  expect(stack.back.recorded.includes("how are keys")).toBe(false);

  // Without it, the same search ranks by cosine alone.
  await search.getByRole("checkbox").uncheck();
  await search.getByRole("button", { name: "Search", exact: true }).click();
  await expect(search.getByRole("listitem")).toHaveCount(LINES.length);
  await expect(table).toBeHidden();
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`choice and scores are accessible, ${colorScheme}, at 360 pixels`, async ({ embed, page }) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 360, height: 800 });
    await embed.open();
    await embed.embed(LINES.join("\n"));
    const search = page.getByRole("search");
    await search.getByRole("searchbox").fill("keys");
    await search.getByRole("checkbox").focus();
    await page.keyboard.press("Space");
    await search.getByRole("searchbox").press("Enter");
    await expect(search.getByRole("table")).toBeVisible();
    const results = await new AxeBuilder({ page }).analyze();
    expect(results.violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])).toEqual([]);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(overflow).toBe(0);
  });
}
