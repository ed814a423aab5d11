import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { HostileProxy } from "../fixtures/hostile.ts";
import { root } from "../fixtures/processes.ts";
import { expect, test } from "../fixtures/stack.ts";

/** Addresses of the files of a part of the page that end with `extension`. */
function filesOf(part: string, extension: string): string[] {
  return readdirSync(join(root, "web", "dist", "assets"))
    .filter((name) => name.startsWith(`${part}-`) && name.endsWith(extension))
    .map((name) => `/assets/${name}`);
}

/** Answers requests for `files` with an error until the returned function is called. */
function fail(host: HostileProxy, files: readonly string[]): () => void {
  let failing = true;
  for (const file of files) {
    host.tamper(file, (answer) => (failing ? { ...answer, status: 503, body: Buffer.alloc(0) } : answer));
  }
  return () => {
    failing = false;
  };
}

for (const [extension, what] of [
  [".js", "script"],
  [".css", "style sheet"],
] as const) {
  test(`a route whose ${what} fails to load opens once the network is back, without a reload`, async ({
    audit,
    embed,
    page,
    stack,
  }) => {
    const files = filesOf("Audit", extension);
    const recover = fail(stack.host, files);
    await embed.open();
    await expect(embed.verdict).toHaveText("SIMULATED");
    await embed.text.fill("kept");
    await page.getByRole("link", { name: "Audit", exact: true }).click();
    await expect(page.getByText("Loading the auditor")).toBeVisible();
    await expect.poll(() => stack.host.requests(files[0] ?? "").length).toBeGreaterThan(1);
    recover();
    await expect(audit.box).toBeVisible();
    await expect(audit.box).toHaveCSS("font-size", "14px");
    await page.getByRole("link", { name: "Embed", exact: true }).click();
    await expect(embed.text).toHaveValue("kept");
  });
}

test("a route that stays unreachable is loaded by its button, which keeps the text", async ({
  audit,
  embed,
  page,
  stack,
}) => {
  const recover = fail(stack.host, filesOf("Audit", ".js"));
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.text.fill("kept");
  await page.getByRole("link", { name: "Audit", exact: true }).click();
  const alert = page.getByRole("alert").filter({ hasText: "The auditor could not be shown." });
  await expect(alert).toContainText("could not be loaded");
  recover();
  await alert.getByRole("button", { name: "Try again" }).click();
  await expect(audit.box).toBeVisible();
  await page.getByRole("link", { name: "Embed", exact: true }).click();
  await expect(embed.text).toHaveValue("kept");
});

test("the other routes are loaded after the verdict, and open without a network", async ({
  audit,
  embed,
  page,
  stack,
}) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  const scripts = [...filesOf("Audit", ".js"), ...filesOf("Dashboard", ".js")];
  for (const script of scripts) {
    await expect.poll(() => stack.host.requests(script).length).toBe(1);
  }
  await page.waitForLoadState("networkidle");
  await page.context().setOffline(true);
  await page.getByRole("link", { name: "Audit", exact: true }).click();
  await expect(audit.box).toBeVisible();
});

test("typed text and files survive a reload, and are forgotten when cleared", async ({
  audit,
  embed,
  page,
}) => {
  page.on("dialog", (dialog) => void dialog.accept());
  await embed.open();
  await embed.text.fill("typed\n  twice");
  await embed.files.setInputFiles([
    { name: "notes.csv", mimeType: "text/csv", buffer: Buffer.from("id,text\n1,one\n2,two\n") },
  ]);
  await expect(page.locator(".text-count")).toHaveText("4 items");
  await page.reload();
  await expect(embed.text).toHaveValue("typed\n  twice");
  await expect(page.locator(".file")).toContainText("notes.csv");
  await expect(page.locator(".text-count")).toHaveText("4 items");
  await page.getByRole("button", { name: "Clear", exact: true }).click();
  await page.reload();
  await expect(embed.text).toHaveValue("");
  await expect(page.locator(".file")).toHaveCount(0);

  await audit.open();
  await audit.box.fill("not a receipt");
  await page.reload();
  await expect(audit.box).toHaveValue("not a receipt");
  await expect(page.locator(".audit-result")).not.toBeEmpty();
});

test("a receipt that is pasted or dropped after a reload replaces the text of before", async ({
  audit,
  page,
}) => {
  page.on("dialog", (dialog) => void dialog.accept());
  const restored = async () => {
    await audit.open();
    await audit.box.fill("of before");
    await page.reload();
    await expect(audit.box).toHaveValue("of before");
  };
  await restored();
  await audit.paste("a receipt");
  await expect(audit.box).toHaveValue("a receipt");
  // It joins text of this load.
  await audit.paste(", and more");
  await expect(audit.box).toHaveValue("a receipt, and more");

  await restored();
  await audit.drop([{ name: "receipt.txt", content: "a receipt" }]);
  await expect(page.locator(".audit-intake .file-name")).toHaveText("receipt.txt");
  await expect(audit.box).toHaveValue("");

  await restored();
  await audit.box.press("End");
  await audit.box.pressSequentially("!");
  await audit.paste(" joined");
  await expect(audit.box).toHaveValue("of before! joined");
});

test("text that is typed or cleared just before another route is saved", async ({ audit, page }) => {
  page.on("dialog", (dialog) => void dialog.accept());
  await audit.open();
  const saved = () => page.evaluate(() => sessionStorage.getItem("clearseal.audit"));
  /** Both within the pause after which a change is saved. */
  const changeAndLeave = (text: string) =>
    audit.box.evaluate((box, value) => {
      const setter = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value")?.set;
      setter?.call(box, value);
      box.dispatchEvent(new Event("input", { bubbles: true }));
      document.querySelector<HTMLAnchorElement>('nav a[href="/"]')?.click();
    }, text);
  await changeAndLeave("typed");
  await expect.poll(saved).toBe('"typed"');
  await page.getByRole("link", { name: "Audit", exact: true }).click();
  await expect(audit.box).toHaveValue("typed");
  await changeAndLeave("");
  await expect.poll(saved).toBeNull();
});

test("typed text is stored without an event of the page's end", async ({ embed, page }) => {
  await embed.open();
  await embed.text.fill("kept");
  await expect.poll(() => page.evaluate(() => sessionStorage.getItem("clearseal.input"))).toContain("kept");
});

test("an unreachable service is asked again, and the page states when", async ({ embed, stack }) => {
  stack.host.tamper("/v1/attestation", (answer) => ({ ...answer, status: 502, body: Buffer.alloc(0) }));
  await embed.open();
  await expect(embed.verdict).toHaveText("Unreachable");
  await expect(embed.seal.locator(".seal-retry")).toHaveText(/^tries again in 00:0\d$/);
  stack.host.behave();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await expect(embed.seal.locator(".seal-retry")).toHaveCount(0);
});

test("a reload in the middle of a run keeps the text and the finished items", async ({
  embed,
  page,
  stack,
}) => {
  page.on("dialog", (dialog) => void dialog.accept());
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  let answered = 0;
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  stack.host.tamper("/v1/gateway", async (answer) => {
    answered += 1;
    if (answered > 1) await held;
    return answer;
  });
  const lines = Array.from({ length: 70 }, (_, at) => `line ${at}`).join("\n");
  await embed.embed(lines);
  await expect(embed.progress).toContainText("32 of 70 items embedded");
  await page.reload();
  release();
  await expect(embed.text).toHaveValue(lines);
  await expect(embed.progress).toContainText("32 of 70 items embedded");
  await expect(embed.progress).toContainText("The page was reloaded.");
  await expect(embed.verdict).toHaveText("SIMULATED");
  await page.getByRole("button", { name: "Send the remaining 38" }).click();
  await expect(embed.progress).toContainText("70 of 70 items embedded");
  await page.reload();
  await expect(embed.progress).toContainText("70 of 70 items embedded");
});
