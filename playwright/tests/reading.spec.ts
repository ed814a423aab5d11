import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect, test } from "../fixtures/stack.ts";

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

async function violations(page: Page) {
  const { violations } = await new AxeBuilder({ page }).withTags(RULES).analyze();
  return violations.map(({ id, nodes }) => ({ id, where: nodes.map(({ target }) => target) }));
}

const TEXTS =
  "The cat sleeps.\nA kitten naps.\nRevenue fell in the third quarter of the year.\n\u05d7\u05ea\u05d5\u05dc";

test("the focus stays on Embed while and after it runs", async ({ embed }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.text.fill("one line");
  await embed.submit.focus();
  await embed.submit.press("Enter");
  await expect(embed.receipt).toBeVisible();
  await expect(embed.submit).toBeFocused();
});

test("texts keep their direction, and rows and points carry them", async ({ embed, page }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await expect(page.locator("#submit-note")).toContainText("all-MiniLM-L6-v2 is a model of English");
  await embed.embed(TEXTS);
  await expect(embed.receipt).toBeVisible();
  const rows = page.locator(".matrix-rows li");
  await expect(rows).toHaveText(TEXTS.split("\n"));
  await expect(rows.last()).toHaveCSS("direction", "rtl");
  await expect(page.locator(".ranking .neighbours-text", { hasText: "\u05d7" })).toHaveCSS(
    "direction",
    "rtl",
  );
  await expect(page.locator(".matrix-caption .reading")).toContainText(
    /cosine similarity: (nearly the same meaning|related|loosely related|little in common)/,
  );
  await page.getByRole("tab", { name: "Map" }).click();
  await expect(page.locator(".map-point text", { hasText: "A kitten naps." })).toHaveCount(1);
});

test("forgotten receipts come back", async ({ embed, page }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed("one");
  const lines = page.locator(".history-list li");
  await expect(lines).toHaveCount(1);
  await page.getByRole("button", { name: "Forget all" }).click();
  await expect(lines).toHaveCount(0);
  await page.getByRole("button", { name: "Undo: bring back 1 receipt" }).click();
  await expect(lines).toHaveCount(1);
});

for (const viewport of [
  { width: 1280, height: 900 },
  { width: 360, height: 740 },
]) {
  test(`the audit's verdict is on the screen after a drop, ${viewport.width} × ${viewport.height}`, async ({
    audit,
    embed,
    page,
  }) => {
    await page.setViewportSize(viewport);
    await embed.open();
    await expect(embed.verdict).toHaveText("SIMULATED");
    await embed.embed("one");
    await expect(page.locator(".history-list li")).toHaveCount(1);
    const receipts = await embed.save("Export JSONL");
    await audit.open();
    await audit.drop([{ name: "receipts.jsonl", content: receipts }]);
    await expect(audit.verdict).toBeVisible();
    const box = await audit.verdict.boundingBox();
    expect(await page.evaluate(() => scrollY)).toBe(0);
    expect((box?.y ?? Number.NaN) + (box?.height ?? 0)).toBeLessThanOrEqual(viewport.height);
    expect(await violations(page)).toEqual([]);
  });
}

test("no violation of WCAG 2.2 AA in any view at 360 px", async ({ embed, page }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await page.emulateMedia({ reducedMotion: "reduce" });
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed(TEXTS);
  await expect(embed.receipt).toBeVisible();
  await page.getByRole("button", { name: "Read as a table" }).click();
  const results = page.getByRole("region", { name: "Result" });
  for (const view of ["Similarity", "Map", "Vectors"]) {
    await results.getByRole("tab", { name: view }).click();
    expect(await violations(page), view).toEqual([]);
  }
  await embed.openSeal();
  for (const tab of await embed.seal.getByRole("tab").all()) {
    await tab.click();
    expect(await violations(page), (await tab.textContent()) ?? "").toEqual([]);
  }
});

test("print has light colours, no navigation and no buttons", async ({ embed, page }) => {
  await page.emulateMedia({ colorScheme: "dark" });
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed("one\ntwo");
  await expect(embed.receipt).toBeVisible();
  await page.emulateMedia({ colorScheme: "dark", media: "print" });
  await expect(page.locator("html")).toHaveCSS("background-color", "rgb(255, 255, 255)");
  await expect(page.getByRole("navigation")).toBeHidden();
  expect(await page.locator("button:visible:not(.term, .hash, .ranking button)").count()).toBe(0);
  await expect(page.getByRole("region", { name: "Result" })).toBeVisible();
});
