import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AxeBuilder } from "@axe-core/playwright";
import { type BrowserContext, chromium, type Page, type Worker } from "@playwright/test";
import { Publisher } from "../fixtures/signed-release.ts";
import { test as base, expect } from "../fixtures/stack.ts";

/** Chromium with the unpacked extension, whose one page is the stack's. */
const test = base.extend<{ publisher: Publisher; extended: BrowserContext }>({
  publisher: async ({ stack }, use) => {
    const publisher = await Publisher.start("chromium", stack.url);
    await use(publisher);
    await publisher.close();
  },
  extended: async ({ publisher, launchOptions }, use) => {
    const profile = mkdtempSync(join(tmpdir(), "clearseal-profile-"));
    const context = await chromium.launchPersistentContext(profile, {
      ...launchOptions,
      headless: false,
      args: [
        ...(launchOptions.args ?? []),
        "--headless=new",
        `--disable-extensions-except=${publisher.extension}`,
        `--load-extension=${publisher.extension}`,
      ],
    });
    // Its listeners are registered once its script has run.
    await (await findWorker(context)).evaluate(() => undefined);
    await use(context);
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  },
});

async function findWorker(context: BrowserContext): Promise<Worker> {
  return context.serviceWorkers()[0] ?? (await context.waitForEvent("serviceworker"));
}

/** Badge of the tab with this address, as the toolbar shows it. */
async function badge(context: BrowserContext, url: string): Promise<string> {
  const worker = await findWorker(context);
  return worker.evaluate(async (address) => {
    const { action, tabs } = (globalThis as unknown as { chrome: Chromium }).chrome;
    const all = await tabs.query({});
    const tab = all.find((one) => one.url === address);
    return tab ? action.getBadgeText({ tabId: tab.id }) : "no tab";
  }, url);
}

/** States of all tabs, as the extension stores them. */
async function readStates(context: BrowserContext): Promise<string> {
  const worker = await findWorker(context);
  return worker.evaluate(async () => {
    const { storage } = (globalThis as unknown as { chrome: Chromium }).chrome;
    return JSON.stringify(await storage.session.get(null));
  });
}

/** The popup of a tab, opened as a page. */
async function openPopup(context: BrowserContext, url: string): Promise<Page> {
  const worker = await findWorker(context);
  const address = await worker.evaluate(async (address) => {
    const { runtime, tabs } = (globalThis as unknown as { chrome: Chromium }).chrome;
    const tab = (await tabs.query({})).find((one) => one.url === address);
    return `${runtime.getURL("popup.html")}?tab=${tab?.id}`;
  }, url);
  const popup = await context.newPage();
  await popup.goto(address);
  return popup;
}

interface Chromium {
  action: { getBadgeText(details: { tabId: number }): Promise<string> };
  runtime: { getURL(path: string): string };
  storage: { session: { get(keys: null): Promise<object> } };
  tabs: { query(filter: object): Promise<{ id: number; url?: string }[]> };
}

test("the toolbar shows the signed release, for every file of the page that arrives", async ({
  extended,
  stack,
}) => {
  const page = await extended.newPage();
  await page.goto(stack.url);
  await expect(page.locator("section.seal h2")).toHaveText("SIMULATED");
  await expect.poll(() => badge(extended, page.url())).toBe("✓");
  const popup = await openPopup(extended, page.url());
  await expect(popup.getByRole("heading")).toHaveText("Verified: release 0.1.0-test");
  await expect(popup.locator("dl")).toContainText("3d".repeat(20));
  await expect(popup.locator("#limits")).toContainText("a second time");
  await popup.close();
  // Files of another route join the same load.
  await page.getByRole("link", { name: "Audit" }).click();
  await expect(page.locator("textarea.audit-box")).toBeVisible();
  await expect.poll(() => badge(extended, page.url())).toBe("✓");
});

test("one changed byte differs, in a document and in a script, and is not forgotten", async ({
  extended,
  stack,
}) => {
  const page = await extended.newPage();
  stack.host.tamper("/theme.js", (answer) => ({
    ...answer,
    body: Buffer.concat([answer.body, Buffer.from("\n")]),
  }));
  await page.goto(stack.url);
  await expect.poll(() => badge(extended, page.url())).toBe("!");
  const popup = await openPopup(extended, page.url());
  await expect(popup.getByRole("heading")).toHaveText("Differs from the signed release");
  await expect(popup.getByRole("listitem")).toHaveText("/theme.js: other bytes than the release's");
  await popup.close();

  stack.host.behave();
  await page.reload();
  await expect(page.locator("section.seal h2")).toHaveText("SIMULATED");
  await expect.poll(() => badge(extended, page.url())).toBe("!");

  const another = await extended.newPage();
  stack.host.tamper("/", (answer) => ({ ...answer, body: Buffer.concat([answer.body, Buffer.from("\n")]) }));
  await another.goto(`${stack.url}/?other`);
  await expect.poll(() => badge(extended, another.url())).toBe("!");
});

test("a difference that is found after the tab left the page is not shown there, and counts on return", async ({
  extended,
  publisher,
  stack,
}) => {
  const page = await extended.newPage();
  let answerAgain = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    answerAgain = resolve;
  });
  let requests = 0;
  stack.host.tamper("/theme.js", async (answer) => {
    requests += 1;
    if (requests === 1) return answer;
    await held;
    return { ...answer, body: Buffer.concat([answer.body, Buffer.from("\n")]) };
  });
  await page.goto(stack.url);
  await expect(page.locator("section.seal h2")).toHaveText("SIMULATED");
  await expect.poll(() => requests).toBe(2);
  await expect.poll(() => badge(extended, page.url())).toBe("…");
  await page.goto(new URL("/release.json", publisher.address).href);
  answerAgain();
  await expect.poll(() => readStates(extended)).toContain("/theme.js");
  expect(await badge(extended, page.url())).toBe("");
  stack.host.behave();
  await page.goto(stack.url);
  await expect(page.locator("section.seal h2")).toHaveText("SIMULATED");
  await expect.poll(() => badge(extended, page.url())).toBe("!");
});

test("without a valid signature the state is unknown", async ({ extended, publisher, stack }) => {
  publisher.signed -= 8 * 24 * 3600;
  const page = await extended.newPage();
  await page.goto(stack.url);
  await expect.poll(() => badge(extended, page.url())).toBe("?");
  const popup = await openPopup(extended, page.url());
  await expect(popup.locator("#detail")).toContainText("more than seven days ago");
});

test("a page that the user did not add is not watched, and a malformed key is refused", async ({
  extended,
  publisher,
  stack,
}) => {
  const page = await extended.newPage();
  await page.goto(new URL("/release.json", publisher.address).href);
  expect(await badge(extended, page.url())).toBe("");
  const popup = await openPopup(extended, page.url());
  await expect(popup.getByRole("heading")).toHaveText("Not watched");
  const [options] = await Promise.all([
    extended.waitForEvent("page"),
    popup.getByRole("button", { name: "Pages and keys" }).click(),
  ]);
  await expect(options.getByRole("listitem")).toContainText(stack.url);
  await expect(options.getByLabel("Address of the page")).toHaveValue(new URL(page.url()).origin);
  await options.getByLabel("The publisher's key").fill("RW");
  await options.getByLabel("Address of release.json").fill(page.url());
  await options.getByRole("button", { name: "Add" }).click();
  await expect(options.getByRole("status")).toContainText("not a minisign key");
  for (const own of [popup, options]) {
    const { violations } = await new AxeBuilder({ page: own }).analyze();
    expect(violations).toEqual([]);
  }
});
