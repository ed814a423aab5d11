import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, type Stack, test } from "../fixtures/stack.ts";

const dist = join(import.meta.dirname, "..", "..", "web", "dist");
const FILES = readFileSync(join(dist, "files.txt"), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => line.slice(66));

interface Case {
  readonly files: RegExp;
  readonly route: string;
  /** Loads the file, if the route does not. */
  readonly use?: (page: Page) => Promise<void>;
  /** Shows that the file had no effect, and what the page says about it. */
  readonly check: (page: Page, name: string) => Promise<void>;
}

const blocked = (page: Page) => page.getByText("A file of this page did not arrive");

async function expectChanged(page: Page, name: string): Promise<void> {
  const message = page.getByText(`the server sends another ${name} than this page was built with`);
  await expect(message.first()).toBeVisible();
}

async function expectVerifierLost(page: Page, name: string): Promise<void> {
  await expectChanged(page, name);
  await expect(page.locator("section.seal h2")).not.toHaveText(/SIMULATED|VERIFIED|Checking/);
}

/** Which worker is whose: all are named after their source. */
const [VERIFIER, AUDITOR] = ["clearseal-verifier", "clearseal-auditor"].map((name) => workerOf(name));

function workerOf(name: string): string {
  const script = readFileSync(join(dist, FILES.find((file) => isPart("Audit", file)) ?? ""), "utf8");
  const audits = /\/assets\/(worker-[\w-]+\.js)/.exec(script)?.[1];
  const isAuditor = name === "clearseal-auditor";
  return (
    FILES.map((file) => file.replace("assets/", "")).find(
      (file) => file.startsWith("worker-") && (file === audits) === isAuditor,
    ) ?? ""
  );
}

function isPart(part: string, file: string): boolean {
  return file.startsWith(`assets/${part}-`) && file.endsWith(".js");
}

const CASES: readonly Case[] = [
  {
    files: /^theme\.js$/,
    route: "/",
    check: async (page) => {
      await expect(page.locator("html")).not.toHaveAttribute("data-page");
      await expect(blocked(page)).toBeVisible();
    },
  },
  {
    files: /^assets\/index-[\w-]+\.js$/,
    route: "/",
    check: async (page) => {
      await expect(blocked(page)).toBeVisible();
      await expect(page.locator("section.seal")).toHaveCount(0);
    },
  },
  {
    files: /^assets\/index-[\w-]+\.css$/,
    route: "/",
    check: async (page) => {
      await expect(blocked(page)).toBeVisible();
      expect(await page.evaluate(() => document.styleSheets.length)).toBe(0);
    },
  },
  {
    files: new RegExp(`^assets/${VERIFIER}$`),
    route: "/",
    check: async (page, name) => {
      await expectVerifierLost(page, name);
      expect(page.workers()).toEqual([]);
    },
  },
  { files: /\.wasm$/, route: "/", check: expectVerifierLost },
  {
    files: /^assets\/Audit-[\w-]+\.(?:js|css)$/,
    route: "/audit",
    check: async (page, name) => {
      await expectChanged(page, name);
      await expect(page.locator("textarea")).toHaveCount(0);
    },
  },
  {
    files: new RegExp(`^assets/${AUDITOR}$`),
    route: "/audit",
    use: (page) => page.locator("textarea.audit-box").fill("{}"),
    check: async (page, name) => {
      await expectChanged(page, name);
      expect(page.workers()).toEqual([]);
    },
  },
  {
    files: /^samples\.json$/,
    route: "/audit",
    check: async (page, name) => {
      await expectChanged(page, name);
      await expect(page.locator("textarea.audit-box")).toBeVisible();
      await expect(page.locator(".audit-samples")).toHaveCount(0);
    },
  },
  {
    files: /^assets\/Dashboard-[\w-]+\.(?:js|css)$/,
    route: "/benchmarks",
    check: async (page, name) => {
      await expectChanged(page, name);
      await expect(page.locator(".bench-view")).toHaveCount(0);
    },
  },
  {
    files: /^assets\/reader\.worker-[\w-]+\.js$/,
    route: "/benchmarks",
    use: (page) =>
      page
        .locator('.drop input[type="file"]')
        .setInputFiles({ name: "run.json", mimeType: "application/json", buffer: Buffer.from("{}") }),
    check: async (page, name) => {
      await expectChanged(page, name);
      expect(page.workers()).toEqual([]);
    },
  },
  {
    files: /^assets\/[\w-]+\.json$/,
    route: "/benchmarks",
    check: async (page, name) => {
      await expectChanged(page, name);
      await expect(page.locator(".bench-view")).toHaveCount(0);
    },
  },
];

/** These do not run: an image, and texts. No page can check its own first file, which contains the hashes of the others. */
const UNPINNED = /^(?:favicon\.svg|index\.html|[\w-]+\.txt)$/;

/** A byte that changes nothing about the effect of a script or style, where the file ends with a line break. */
function changeByte(body: Buffer): Buffer {
  const changed = Buffer.from(body);
  const last = changed.length - 1;
  changed[last] = changed[last] === 0x0a ? 0x20 : (changed[last] ?? 0) ^ 1;
  return changed;
}

function serveChanged(stack: Stack, file: string): void {
  stack.host.tamper(`/${file}`, (answer) => ({ ...answer, body: changeByte(answer.body) }));
}

test("one changed byte of any file of the page, and the file does not run", async ({ browser, stack }) => {
  test.setTimeout(300_000);
  for (const file of FILES.filter((file) => !UNPINNED.test(file))) {
    await test.step(file, async () => {
      const found = CASES.find(({ files }) => files.test(file));
      if (!found) throw new Error(`${file} has no case`);
      stack.host.behave();
      serveChanged(stack, file);
      const context = await browser.newContext();
      const page = await context.newPage();
      const refusals: string[] = [];
      page.on("console", (message) => {
        if (message.text().includes("integrity")) refusals.push(message.text());
      });
      await page.goto(new URL(found.route, stack.url).href);
      await found.use?.(page);
      await found.check(page, file.replace("assets/", ""));
      // A worker's refusals are not in the console of its page.
      if (!file.endsWith(".wasm")) await expect.poll(() => refusals.join("\n"), file).toContain(file);
      await context.close();
    });
  }
});

test("a changed import map does not apply, so no part of the page loads by it", async ({ page, stack }) => {
  stack.host.tamper("/", (answer) => ({
    ...answer,
    body: Buffer.from(answer.body.toString("utf8").replace('{"integrity":{', '{"integrity": {')),
  }));
  const complaints: string[] = [];
  page.on("console", (message) => void complaints.push(message.text()));
  await page.goto(stack.url);
  await expect.poll(() => complaints.join("\n")).toContain("Content Security Policy");
});

test("a script without a hash does not run, and a worker starts from no address of the server", async ({
  embed,
  page,
}) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  const outcomes = await page.evaluate(async (path) => {
    const script = document.createElement("script");
    script.src = "/theme.js?another";
    const element = await new Promise<string>((resolve) => {
      script.addEventListener("load", () => resolve("ran"));
      script.addEventListener("error", () => resolve("refused"));
      document.head.append(script);
    });
    const address = "/theme.js?imported";
    const module = await import(address).then(
      () => "ran",
      () => "refused",
    );
    const worker = await new Promise<string>((resolve) => {
      try {
        const started = new Worker(path, { type: "module" });
        started.addEventListener("message", () => resolve("ran"));
        started.addEventListener("error", () => resolve("refused"));
      } catch {
        // A violation of the policy may be an exception or an event.
        resolve("refused");
      }
    });
    return { element, module, worker };
  }, `/assets/${VERIFIER}`);
  expect(outcomes).toEqual({ element: "refused", module: "refused", worker: "refused" });
});

test("the page comes with its two policies", async ({ page, stack }) => {
  const answer = await page.goto(stack.url);
  const headers = answer?.headers() ?? {};
  expect(headers["integrity-policy"]).toBe("blocked-destinations=(script)");
  expect(headers["content-security-policy"]).toMatch(
    /script-src 'self' 'wasm-unsafe-eval' 'sha256-[\w+/=]+';/,
  );
  expect(headers["content-security-policy"]).toContain("worker-src blob:;");
  // The page has no fonts, no manifest and no image in its own text.
  expect(headers["content-security-policy"]).not.toMatch(/font-src|manifest-src|data:/);
});
