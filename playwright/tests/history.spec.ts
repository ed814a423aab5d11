import { expect, test } from "../fixtures/stack.ts";

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
