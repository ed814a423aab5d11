import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type Browser, launch, type Page } from "puppeteer-core";
import { root } from "../fixtures/processes.ts";
import { test as base, expect } from "../fixtures/stack.ts";

const test = base.extend<{ firefox: Page; errors: string[] }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the fixture's dependencies from this pattern.
  errors: async ({}, use) => {
    const errors: string[] = [];
    await use(errors);
    expect(errors, "errors that the page reported").toEqual([]);
  },
  firefox: async ({ errors, stack }, use) => {
    const browser: Browser = await launch({
      browser: "firefox",
      executablePath: process.env.CLEARSEAL_FIREFOX ?? "/usr/bin/firefox-esr",
    });
    const page = await browser.newPage();
    await page.setViewport({ width: 1280, height: 900 });
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error") errors.push(message.text());
    });
    await page.goto(stack.url);
    await use(page);
    await browser.close();
  },
});

const verdict = (page: Page) =>
  page
    .locator("section.seal h2")
    .map((heading) => heading.textContent)
    .wait();

test("the enclave is verified, texts are embedded, and the receipt is checked", async ({ firefox }) => {
  await firefox.waitForFunction(() => document.querySelector("section.seal h2")?.textContent === "SIMULATED");
  await firefox.locator("textarea").fill("a sealed text\na second one");
  await firefox.keyboard.down("Control");
  await firefox.keyboard.press("Enter");
  await firefox.keyboard.up("Control");
  await firefox.waitForFunction(
    () => document.querySelector("section.receipt")?.getAttribute("data-verdict") === "simulated",
  );
  expect(await verdict(firefox)).toBe("SIMULATED");
});

test("a changed answer is refused", async ({ firefox, stack, errors }) => {
  await firefox.waitForFunction(() => document.querySelector("section.seal h2")?.textContent === "SIMULATED");
  stack.host.tamper("/v1/attestation", (answer) => ({
    ...answer,
    body: Buffer.from(answer.body.map((byte, at) => (at === answer.body.length - 1 ? byte ^ 1 : byte))),
  }));
  await firefox.locator("::-p-text(Verify again)").click();
  await firefox.waitForFunction(() => document.querySelector("section.seal h2")?.textContent === "Refused");
  expect(errors).toEqual([]);
});

test("audit and benchmarks open, each with its title", async ({ firefox, stack }) => {
  for (const [path, title] of [
    ["/audit", "Audit"],
    ["/benchmarks", "Benchmarks"],
  ] as const) {
    await firefox.goto(new URL(path, stack.url).href);
    await firefox.waitForFunction(
      (expected) =>
        document.title.startsWith(expected) && document.querySelector("main h1, main h2") !== null,
      {},
      title,
    );
  }
});

test("a route whose script fails to load opens once the network is back, with the text", async ({
  firefox,
  stack,
  errors,
}) => {
  const script = readdirSync(join(root, "web", "dist", "assets")).find((name) => /^Audit-.*\.js$/.test(name));
  let failing = true;
  stack.host.tamper(`/assets/${script}`, (answer) => (failing ? { ...answer, status: 503 } : answer));
  await firefox.reload();
  await firefox.waitForFunction(() => document.querySelector("section.seal h2")?.textContent === "SIMULATED");
  await firefox.locator("textarea").fill("kept");
  const asked = () => stack.host.requests(`/assets/${script}`).length;
  const before = asked();
  await firefox.locator('::-p-xpath(//nav//a[text()="Audit"])').click();
  await expect.poll(asked).toBeGreaterThan(before + 1);
  failing = false;
  await firefox.waitForFunction(() => document.querySelector("textarea.audit-box") !== null);
  await firefox.locator('::-p-xpath(//nav//a[text()="Embed"])').click();
  await firefox.waitForFunction(() => document.querySelector("textarea")?.value === "kept");
  // The browser itself reports a failed module.
  errors.length = 0;
});
