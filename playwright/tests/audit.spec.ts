import AxeBuilder from "@axe-core/playwright";
import { logLongTasks } from "../fixtures/long-tasks.mjs";
import { expect, test } from "../fixtures/stack.ts";
import type { EmbedPage } from "../pages/embed.ts";

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

interface Bundle {
  receipt: string;
  document: string;
  manifest: string;
}

/** Embeds, and returns the receipt's bundle, without text. */
async function bundleOf(embed: EmbedPage, lines: string): Promise<{ json: string; bundle: Bundle }> {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed(lines);
  await expect(embed.receipt).toBeVisible();
  const json = (await embed.save("Download bundle")).toString("utf8");
  return { json, bundle: JSON.parse(json) as Bundle };
}

test("a receipt is sent to the audit, which opens it and shows its text", async ({ audit, embed, page }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed("The cat sleeps.\nA kitten naps.");
  await page.getByLabel(/my text and the vectors/).check();
  await page.getByRole("button", { name: "Audit this" }).click();
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(audit.receiptChecks.locator("tr[data-check]")).toHaveCount(23);
  for (const check of ["signature", "key-attested", "document", "request", "response"]) {
    await expect(audit.check(check)).toHaveAttribute("data-tone", "passed");
  }
  await expect(audit.sheet.getByRole("list", { name: "Text of the request" })).toContainText(
    "A kitten naps.",
  );
  const own = page.getByLabel(/Does it cover a text of yours/);
  await own.fill("A kitten naps.");
  await expect(audit.sheet).toContainText("Yes: item 2 of 2 items is exactly this text");
  await own.fill("A kitten naps");
  await expect(audit.sheet).toContainText("No item is exactly this text");
  await audit.tab("Attestation");
  await expect(page.getByRole("table", { name: "Checks of the attestation document" })).toBeVisible();
  await audit.tab("Certificates");
  await expect(page.locator(".certificate")).toHaveCount(5);
});

test("every encoding of a receipt is recognised, and nothing passes without a key", async ({
  audit,
  embed,
}) => {
  const { json, bundle } = await bundleOf(embed, "one line");
  const raw = Buffer.from(bundle.receipt, "base64url");
  await audit.open();
  for (const [text, form] of [
    [raw.toString("hex"), "hex"],
    [raw.toString("base64"), "base64"],
    [raw.toString("base64url"), "base64"],
    [JSON.stringify({ receipt: bundle.receipt }), "JSON"],
  ] as const) {
    await audit.paste(text);
    await expect(audit.seal).toContainText(`read as ${form}`);
    await expect(audit.verdict).toHaveText("Refused");
    await expect(audit.code).toHaveText("NO_KEY");
    await expect(audit.check("envelope")).toHaveAttribute("data-tone", "passed");
    await expect(audit.check("signature")).toHaveAttribute("data-tone", "none");
    await expect(audit.sheet.getByRole("heading", { name: "Unverified claims" })).toBeVisible();
    await expect(audit.sheet).toContainText("anyone may have written this");
    await expect(audit.sheet).toContainText("all-MiniLM-L6-v2");
    await expect(audit.sheet.getByRole("heading", { name: "Claims", exact: true })).toHaveCount(0);
    await audit.clear();
  }
  await audit.drop([{ name: "receipt.bin", content: raw }]);
  await expect(audit.seal).toContainText("read as raw bytes");
  // With its evidence in another bundle, the same bare receipt passes.
  await audit.drop([{ name: "bundle.json", content: json }]);
  await expect(audit.list.getByRole("option")).toHaveCount(2);
  await audit.list.getByRole("option").first().click();
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(audit.seal).toContainText("receipt key from the evidence of another bundle");
  await expect(audit.sheet.getByRole("heading", { name: "Unverified claims" })).toHaveCount(0);
});

test("one changed character of a receipt is refused", async ({ audit, embed }) => {
  const { bundle } = await bundleOf(embed, "one line");
  const raw = Buffer.from(bundle.receipt, "base64url");
  raw[raw.length - 1] = (raw.at(-1) ?? 0) ^ 1;
  await audit.open();
  await audit.paste(
    JSON.stringify({ format: "clearseal-audit-bundle/1", ...bundle, receipt: raw.toString("base64url") }),
  );
  await expect(audit.verdict).toHaveText("Refused");
  await expect(audit.code).toHaveText("SIG_FAILED");
  await expect(audit.check("signature")).toHaveAttribute("data-tone", "failed");
  await expect(audit.check("document")).toHaveAttribute("data-tone", "none");
});

test("a link carries the receipt in its fragment, which no server receives", async ({
  audit,
  embed,
  stack,
}) => {
  const { bundle } = await bundleOf(embed, "one line");
  await audit.open(`#receipt=${bundle.receipt}.${bundle.document}.${bundle.manifest}`);
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(audit.seal).toContainText("read as link");
  const seen = stack.front.recorded;
  expect(seen.includes(bundle.receipt.slice(0, 40))).toBe(false);
});

test("once loaded, the audit works offline", async ({ audit, embed, page }) => {
  const { json } = await bundleOf(embed, "one line");
  const policy = page.waitForResponse((response) => response.url().endsWith("/v1/development-policy"));
  await audit.open();
  await expect(page.getByRole("button", { name: "a valid receipt" })).toBeVisible();
  await (await policy).finished();
  await page.context().setOffline(true);
  await audit.paste(json);
  await expect(audit.verdict).toHaveText("SIMULATED");
  await audit.clear();
  await audit.sample("a valid receipt");
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(page.locator(".audit-context")).toContainText("samples of the audit page");
  await audit.sample("a tampered one");
  await expect(audit.verdict).toHaveText("Refused");
  await expect(audit.code).toHaveText("SIG_FAILED");
  await audit.sample("one of another key");
  await expect(audit.verdict).toHaveText("Refused");
  await expect(audit.check("signature")).toHaveAttribute("data-tone", "failed");
});

test("a text and its salt match the hashes of a bundle without both", async ({ audit, embed, page }) => {
  const { json } = await bundleOf(embed, "first line\nsecond line");
  await page.getByLabel(/my text and the vectors/).check();
  const withContent = JSON.parse((await embed.save("Download bundle")).toString("utf8")) as {
    request: string;
  };
  const request = Buffer.from(withContent.request, "base64url").toString("latin1");
  const salt = /clearseal-salt.([\w-]{43})/s.exec(request)?.[1] ?? "";
  await audit.open();
  await audit.paste(json);
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(audit.check("request")).toHaveAttribute("data-tone", "none");
  await page.getByLabel("Salt, 64 hex digits").fill(Buffer.from(salt, "base64url").toString("hex"));
  const text = page.getByLabel("Text, or the answer as received");
  await text.fill("first line\nsecond line");
  await page.getByRole("button", { name: "Compare" }).click();
  await expect(audit.sheet).toContainText("Yes: the receipt covers exactly 2 lines");
  await text.fill("first line\nsecond linE");
  await page.getByRole("button", { name: "Compare" }).click();
  await expect(audit.sheet).toContainText("No: with this salt");
});

test("a bundle with only the salt allows comparing the text, but not reading it", async ({
  audit,
  embed,
  page,
}) => {
  await bundleOf(embed, "first line\nsecond line");
  await page.getByLabel(/Hashes and the salt/).check();
  const json = (await embed.save("Download bundle")).toString("utf8");
  expect(Object.keys(JSON.parse(json) as object)).toEqual([
    "format",
    "receipt",
    "document",
    "manifest",
    "salt",
  ]);
  await audit.open();
  await audit.paste(json);
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(page.getByLabel("Salt, 64 hex digits")).toHaveValue(/^[0-9a-f]{64}$/);
  await page.getByLabel("Text, or the answer as received").fill("first line\nsecond line");
  await page.getByRole("button", { name: "Compare" }).click();
  await expect(audit.sheet).toContainText("Yes: the receipt covers exactly 2 lines");
});

test("a receipt is proved to be in the log, and altered proofs are refused", async ({
  audit,
  embed,
  page,
  stack,
}) => {
  const { json } = await bundleOf(embed, "one line");
  await audit.open();
  await audit.paste(json);
  await expect(audit.verdict).toHaveText("SIMULATED");
  // The host publishes its log at fixed intervals, and the page may be faster.
  await expect(async () => {
    await page.getByRole("button", { name: "Look it up" }).click();
    await expect(page.locator('[data-log="simulated"]')).toContainText("a tree of 2 leaves", {
      timeout: 1_000,
    });
  }).toPass({ timeout: 20_000 });
  const checks = page.getByRole("table", { name: "Checks of the log" });
  for (const check of ["tree-head", "head-signature", "log", "number", "inclusion", "head-time"]) {
    await expect(checks.locator(`tr[data-check="${check}"]`)).toHaveAttribute("data-tone", "passed");
  }
  // A proof with one changed hash digit of its signed head is refused.
  await page.route("**/v1/log/*/inclusion*", async (route) => {
    const proof = (await (await route.fetch()).json()) as { head: string };
    const at = 120;
    const other = proof.head[at] === "A" ? "B" : "A";
    await route.fulfill({
      json: { ...proof, head: proof.head.slice(0, at) + other + proof.head.slice(at + 1) },
    });
  });
  await page.getByRole("button", { name: "Look it up" }).click();
  await expect(page.locator('[data-log="refused"]')).toContainText("Not proved");
  await page.unroute("**/v1/log/*/inclusion*");
  // After one more receipt, the tab checks that the new tree extends the tree that it saw.
  const { json: second } = await bundleOf(embed, "another line");
  await audit.open();
  // The tab has kept the text before.
  await audit.clear();
  await audit.paste(second);
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(async () => {
    await page.getByRole("button", { name: "Look it up" }).click();
    await expect(page.locator('[data-log="simulated"]')).toContainText("extends the tree of 2", {
      timeout: 1_000,
    });
  }).toPass({ timeout: 20_000 });
  for (const check of ["earlier-head", "consistency"]) {
    await expect(checks.locator(`tr[data-check="${check}"]`)).toHaveAttribute("data-tone", "passed");
  }
  // A tree with another beginning cannot extend the one seen before.
  await page.route("**/v1/log/*/consistency*", async (route) => {
    const proof = (await (await route.fetch()).json()) as { path: string[] };
    await route.fulfill({ json: { ...proof, path: proof.path.map(() => "00".repeat(32)) } });
  });
  const { json: third } = await bundleOf(embed, "a third line");
  await audit.open();
  await audit.clear();
  await audit.paste(third);
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(async () => {
    await page.getByRole("button", { name: "Look it up" }).click();
    await expect(page.locator('[data-log="refused"]')).toContainText("HISTORY_INCONSISTENT", {
      timeout: 1_000,
    });
  }).toPass({ timeout: 20_000 });
  await stack.host.close();
  await page.getByRole("button", { name: "Look it up" }).click();
  await expect(page.locator('[data-log="unanswered"]')).toContainText("could not be reached");
});

test("a batch reports missing and repeated receipts", async ({ audit, embed }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  const bundles: string[] = [];
  for (const line of ["one", "two", "three"]) {
    await embed.embed(line);
    await expect(embed.receipt).toContainText(`no. ${bundles.length + 1}`);
    bundles.push((await embed.save("Download bundle")).toString("utf8").replace(/\n\s*/g, ""));
  }
  const [first = "", , third = ""] = bundles;
  await audit.open();
  await audit.drop([{ name: "some.jsonl", content: [first, third, third, "nonsense."].join("\n") }]);
  await expect(audit.batch).toContainText("4 of 4 receipts checked");
  await expect(audit.batch).toContainText("1 gap, 1 receipt missing: 2");
  await expect(audit.batch).toContainText("No number is repeated");
  await expect(audit.batch).toContainText("1 receipt here more than once");
  await audit.list.focus();
  await audit.page.keyboard.press("End");
  await expect(audit.verdict).toHaveText("Refused");
  await expect(audit.code).toHaveText("NOT_RECOGNISED");
  await audit.page.keyboard.press("Home");
  await expect(audit.verdict).toHaveText("SIMULATED");
});

test("ten thousand receipts are checked while the page stays responsive", async ({ audit, embed, page }) => {
  // Half a minute on an idle machine.
  test.setTimeout(600_000);
  const { json, bundle } = await bundleOf(embed, "one line");
  await audit.open();
  const reportLongTasks = await logLongTasks(page);
  const lines = [json.replace(/\n\s*/g, ""), ...Array.from({ length: 9_999 }, () => bundle.receipt)];
  await audit.drop([{ name: "many.jsonl", content: lines.join("\n") }]);
  await expect(audit.batch).toContainText("of 10,000 receipts checked");
  // Typing and choosing work while the worker is busy.
  await page.getByLabel("Show").selectOption("all");
  await expect(audit.list.getByRole("option").first()).toBeVisible();
  expect(await audit.list.getByRole("option").count()).toBeLessThan(60);
  await expect(audit.batch).toContainText("10,000 of 10,000 receipts checked", { timeout: 540_000 });
  await reportLongTasks("10,000 receipts");
  await audit.list.focus();
  await page.keyboard.press("End");
  await expect(audit.seal).toContainText("line 10000");
  await expect(audit.verdict).toHaveText("SIMULATED");
});

test("verdicts disappear when the verifier dies", async ({ audit, page }) => {
  await audit.open();
  await audit.sample("a valid receipt");
  await expect(audit.verdict).toHaveText("SIMULATED");
  for (const worker of page.workers()) {
    await worker.evaluate(() => self.close()).catch(() => undefined);
  }
  await expect(audit.failed).toContainText("VERIFIER_SILENT");
  await expect(audit.sheet).toHaveCount(0);
  await page.getByRole("button", { name: "Check again" }).click();
  await expect(audit.verdict).toHaveText("SIMULATED");
});

test("fifty megabytes on the clipboard are refused with a message", async ({ audit }) => {
  await audit.open();
  await audit.box.evaluate((box) => {
    const data = new DataTransfer();
    data.setData("text/plain", "A".repeat(50_000_000));
    box.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await expect(audit.intakeAlert).toContainText("The pasted text was not read");
  await expect(audit.intakeAlert).toContainText("32 MiB");
  await expect(audit.box).toHaveValue("");
});

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1280, 360]) {
    test(`no violation of WCAG 2.2 AA in an audit, ${colorScheme}, ${width} px`, async ({ audit, page }) => {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.setViewportSize({ width, height: 800 });
      await audit.open();
      await audit.sample("a valid receipt");
      await expect(audit.verdict).toHaveText("SIMULATED");
      await audit.drop([{ name: "more.txt", content: "nothing that is known." }]);
      await expect(audit.batch).toContainText("2 of 2 receipts checked");
      await audit.list.getByRole("option").first().click();
      await expect(audit.receiptChecks).toBeVisible();
      const { violations } = await new AxeBuilder({ page }).withTags(RULES).analyze();
      expect(violations.map(({ id, nodes }) => ({ id, where: nodes.map(({ target }) => target) }))).toEqual(
        [],
      );
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(overflow, "nothing is wider than the window").toBeLessThanOrEqual(0);
    });
  }
}

test("a host that never answers does not stop the audit", async ({ audit, stack }) => {
  stack.host.tamper("/v1/development-policy", () => new Promise(() => undefined));
  await audit.open();
  await audit.sample("a valid receipt");
  await expect(audit.verdict).toHaveText("SIMULATED");
});
