import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "../fixtures/stack.ts";

const dist = join(import.meta.dirname, "..", "..", "web", "dist");

test("every file of the page is listed, and a command finds a changed one", async ({
  embed,
  page,
  stack,
}) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  await page.getByText("Every file of this page").click();
  const listed = readFileSync(join(dist, "files.txt"), "utf8").trimEnd().split("\n");
  await expect(page.locator(".page-files li")).toHaveCount(listed.length);
  await expect(page.locator(".page-files")).toContainText("index.html");
  for (const route of ["Audit", "Dashboard"]) {
    await expect(page.locator(".page-files")).toContainText(`assets/${route}-`);
  }

  const command = await page.locator(".limits .command code").textContent();
  const run = async () =>
    (await promisify(execFile)("bash", ["-c", command ?? "false"], { cwd: dist })).stdout;
  expect(await run()).toBe("");
  stack.host.tamper("/index.html", (answer) => ({
    ...answer,
    body: Buffer.from(answer.body.toString("utf8").replace("<html", "<html data-changed")),
  }));
  expect(await run()).toBe("differs: index.html\n");
});
