import { expect, test } from "../fixtures/stack.ts";
import { EmbedPage } from "../pages/embed.ts";

test("receipts are collected, exported, imported again, and audited together", async ({
  audit,
  embed,
  page,
}) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  const lines = page.locator(".history-list li");
  for (const [index, text] of ["one", "two"].entries()) {
    await embed.embed(text);
    await expect(lines).toHaveCount(index + 1);
  }
  const exported = await embed.save("Export JSONL");
  expect(exported.toString("utf8").trimEnd().split("\n")).toHaveLength(2);
  expect(exported.includes("request"), "no text").toBe(false);

  // Storing is off by default.
  page.on("dialog", (dialog) => void dialog.accept());
  await page.reload();
  await expect(lines).toHaveCount(0);
  await page
    .getByLabel("Import receipts")
    .setInputFiles({ name: "receipts.jsonl", mimeType: "application/jsonl", buffer: exported });
  await expect(lines).toHaveCount(2);
  await expect(lines.first()).toContainText("not checked here yet");
  await page.getByRole("button", { name: "Audit all" }).click();
  await expect(audit.batch).toContainText("2 of 2 receipts checked");
  await expect(audit.batch).toContainText("No gap");
});

test("receipts stay in this browser on request, until they are deleted", async ({ embed, page }) => {
  page.on("dialog", (dialog) => void dialog.accept());
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await page.getByLabel(/Keep them in this browser/).check();
  await embed.embed("one");
  const lines = page.locator(".history-list li");
  await expect(lines).toHaveCount(1);
  await page.reload();
  await expect(lines).toHaveCount(1);
  await expect(page.getByLabel(/Keep them in this browser/)).toBeChecked();
  await page.getByRole("button", { name: "Forget all" }).click();
  // A reload would interrupt erasing, which takes time on a busy machine.
  await expect.poll(() => page.evaluate(stored)).toBe(0);
  await page.reload();
  await expect(page.getByRole("heading", { name: "Receipts", exact: true })).toBeVisible();
  await expect(lines).toHaveCount(0);
});

test("two tabs store their receipts together, and none after one has erased them", async ({
  context,
  embed,
  page,
  stack,
}) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  const early = new EmbedPage(await context.newPage(), stack.url);
  await early.open();
  await expect(early.verdict).toHaveText("SIMULATED");
  await page.getByLabel(/Keep them in this browser/).check();
  await embed.embed("one");
  await expect.poll(() => page.evaluate(stored)).toBe(1);
  // Opened before receipts were stored: its own receipts last as long as its tab, and erase nothing.
  await early.embed("of the early tab");
  await expect(early.page.locator(".history-list li")).toHaveCount(1);

  const late = new EmbedPage(await context.newPage(), stack.url);
  await late.open();
  await expect(late.verdict).toHaveText("SIMULATED");
  await expect(late.page.locator(".history-list li")).toHaveCount(1);
  await late.embed("two");
  await expect.poll(() => page.evaluate(stored)).toBe(2);
  await embed.embed("three");
  await expect.poll(() => page.evaluate(stored)).toBe(3);

  const databases = () => page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name));
  await page.getByLabel(/Keep them in this browser/).uncheck();
  await expect.poll(databases).toEqual([]);
  await late.embed("four");
  await expect(late.page.locator(".history-list li")).toHaveCount(3);
  await expect(late.page.getByLabel(/Keep them in this browser/)).not.toBeChecked();
  expect(await databases()).toEqual([]);
});

/** Number of receipts stored in this browser. Runs in the page. */
function stored(): Promise<number> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("clearseal.receipts");
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      const reading = database.transaction("receipts").objectStore("receipts").get("all");
      reading.onerror = () => reject(reading.error);
      reading.onsuccess = () => {
        database.close();
        resolve(Array.isArray(reading.result) ? reading.result.length : 0);
      };
    };
  });
}
