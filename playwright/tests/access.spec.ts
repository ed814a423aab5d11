import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "../fixtures/stack.ts";

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1280, 360]) {
    test(`no violation of WCAG 2.2 AA, ${colorScheme}, ${width} px`, async ({ embed, page }) => {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.setViewportSize({ width, height: 800 });
      await embed.open();
      await expect(embed.verdict).toHaveText("SIMULATED");
      await embed.embed("The cat sleeps.\nA kitten naps.\nRevenue fell.");
      await expect(embed.receipt).toBeVisible();
      await embed.openSeal();
      await expect(embed.checks).toBeVisible();
      const { violations } = await new AxeBuilder({ page }).withTags(RULES).analyze();
      expect(violations.map(({ id, nodes }) => ({ id, where: nodes.map(({ target }) => target) }))).toEqual(
        [],
      );
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(overflow, "nothing is wider than the window").toBeLessThanOrEqual(0);
    });
  }
}

for (const path of ["/benchmarks", "/audit"]) {
  test(`no violation of WCAG 2.2 AA on ${path}`, async ({ embed, page }) => {
    await embed.open(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    const { violations } = await new AxeBuilder({ page }).withTags(RULES).analyze();
    expect(violations.map(({ id }) => id)).toEqual([]);
  });
}

test("the keyboard is sufficient", async ({ embed, page }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.text.focus();
  await page.keyboard.type("typed, never clicked");
  for (let step = 0; step < 8; step += 1) {
    await page.keyboard.press("Tab");
    if (await embed.submit.evaluate((button) => button === document.activeElement)) break;
  }
  await expect(embed.submit).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(embed.receipt).toBeVisible();
});

test("the page contacts no other origin and does not violate its Content-Security-Policy", async ({
  embed,
  page,
  stack,
}) => {
  const elsewhere: string[] = [];
  const complaints: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(stack.url) && !request.url().startsWith("blob:"))
      elsewhere.push(request.url());
  });
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  const answer = await page.goto(stack.url);
  const policy = answer?.headers()["content-security-policy"] ?? "";
  expect(policy).toContain("'wasm-unsafe-eval'");
  expect(policy).not.toContain("unsafe-inline");
  expect(policy).not.toContain("'unsafe-eval'");
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed("one line");
  await expect(embed.receipt).toBeVisible();
  expect(elsewhere).toEqual([]);
  expect(complaints).toEqual([]);
});
