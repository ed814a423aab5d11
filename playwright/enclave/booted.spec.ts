import { test as base, expect } from "@playwright/test";
import { Machine, measurements } from "../fixtures/machine.ts";
import { EmbedPage } from "../pages/embed.ts";

const test = base.extend<{ machine: Machine }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the fixture's dependencies from this pattern.
  machine: async ({}, use) => {
    const machine = await Machine.boot("sign");
    await use(machine);
    await machine.close();
  },
});

const SECRET = "a line that only the enclave reads";

test("a browser verifies the booted image by its builder's measurements, and embeds", async ({
  page,
  machine,
}) => {
  const embed = new EmbedPage(page, machine.url);
  await embed.open();
  // The measurements are real, but the root is the service's own: the verdict is never green.
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  await expect(embed.checks.locator('tr[data-tone="passed"]')).toHaveCount(26);
  await page.getByRole("tab", { name: "Measurements" }).click();
  const registers = page.getByRole("table", { name: "Platform configuration registers" });
  for (const [index, value] of Object.entries(measurements("sign"))) {
    const header = page.getByRole("rowheader", { name: `PCR${index}`, exact: true });
    const shown = await registers.getByRole("row").filter({ has: header }).innerText();
    expect(shown.replaceAll(/\s/g, "")).toContain(value);
  }
  await embed.embed(SECRET);
  await expect(embed.receipt).toContainText("SIMULATED");
  await expect(embed.receipt).toContainText("all-MiniLM-L6-v2");
  expect(machine.console()).not.toContain(SECRET);
});
