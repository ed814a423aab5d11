import { readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../fixtures/processes.ts";
import { test as base, expect } from "../fixtures/stack.ts";
import { type Colours, KEYS, WebDriver } from "../fixtures/webdriver.ts";

const test = base.extend<{ colours: Colours; webkit: WebDriver }>({
  colours: ["light", { option: true }],
  webkit: async ({ colours, stack }, use, info) => {
    const webkit = await WebDriver.start(colours);
    await webkit.goto(stack.url);
    await webkit.evaluate(collectErrors);
    await use(webkit);
    expect(await webkit.evaluate(collectedErrors), "errors that the page reported").toEqual([]);
    if (info.status !== info.expectedStatus) {
      await info.attach("page", { body: await webkit.screenshot(), contentType: "image/png" });
    }
    await webkit.close();
  },
});

/** Runs in the page, until it is left: WebDriver has no command for them. */
function collectErrors(): void {
  const errors: string[] = [];
  Reflect.set(globalThis, "collectedErrors", errors);
  addEventListener("error", ({ message }) => errors.push(message));
  addEventListener("unhandledrejection", ({ reason }) => errors.push(String(reason)));
}

function collectedErrors(): readonly string[] {
  return (Reflect.get(globalThis, "collectedErrors") as string[] | undefined) ?? [];
}

const verdict = (page: WebDriver) =>
  page.evaluate(() => document.querySelector("section.seal h2")?.textContent ?? "");
const receipt = (page: WebDriver) =>
  page.evaluate(() => document.querySelector("section.receipt")?.getAttribute("data-verdict") ?? null);
const overflow = (page: WebDriver) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** Both colour schemes, and the layout of a phone, in the narrowest window that MiniBrowser opens. */
const SETTINGS = [
  { name: "light", colours: "light", width: 1280 },
  { name: "dark", colours: "dark", width: 1280 },
  { name: "light, narrow", colours: "light", width: 360 },
  { name: "dark, narrow", colours: "dark", width: 360 },
] as const;

for (const { name, colours, width } of SETTINGS) {
  test.describe(name, () => {
    test.use({ colours });
    test.beforeEach(async ({ webkit }) => webkit.resize(width, 900));

    test("the enclave is verified, texts are embedded, and the receipt is checked", async ({ webkit }) => {
      await expect.poll(() => verdict(webkit)).toBe("SIMULATED");
      expect(await webkit.evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches)).toBe(
        colours === "dark",
      );
      // The layout of a phone ends at 720.
      expect(await webkit.evaluate(() => innerWidth < 720)).toBe(width < 720);
      await webkit.type("textarea", "a sealed text\na second one");
      await webkit.press(KEYS.control, KEYS.enter);
      await expect.poll(() => receipt(webkit)).toBe("simulated");
      expect(await verdict(webkit)).toBe("SIMULATED");
      expect(await overflow(webkit)).toBe(0);
    });

    test("audit and benchmarks open, each with its title", async ({ stack, webkit }) => {
      for (const [path, title] of [
        ["/audit", "Audit"],
        ["/benchmarks", "Benchmarks"],
      ] as const) {
        await webkit.goto(new URL(path, stack.url).href);
        await expect.poll(() => webkit.evaluate(() => document.title)).toContain(title);
        await expect
          .poll(() => webkit.evaluate(() => document.querySelector("main h1, main h2") !== null))
          .toBe(true);
        expect(await overflow(webkit)).toBe(0);
      }
    });
  });
}

test("a changed answer is refused", async ({ stack, webkit }) => {
  await expect.poll(() => verdict(webkit)).toBe("SIMULATED");
  stack.host.tamper("/v1/attestation", (answer) => ({
    ...answer,
    body: Buffer.from(answer.body.map((byte, at) => (at === answer.body.length - 1 ? byte ^ 1 : byte))),
  }));
  await webkit.click('//button[contains(., "Verify again")]');
  await expect.poll(() => verdict(webkit)).toBe("Refused");
});

test("a route whose script fails to load opens once the network is back, with the text", async ({
  stack,
  webkit,
}) => {
  const script = readdirSync(join(root, "web", "dist", "assets")).find((name) => /^Audit-.*\.js$/.test(name));
  let failing = true;
  stack.host.tamper(`/assets/${script}`, (answer) => (failing ? { ...answer, status: 503 } : answer));
  await webkit.reload();
  await expect.poll(() => verdict(webkit)).toBe("SIMULATED");
  await webkit.type("textarea", "kept");
  const asked = () => stack.host.requests(`/assets/${script}`).length;
  const before = asked();
  await webkit.click('//nav//a[text()="Audit"]');
  await expect.poll(asked).toBeGreaterThan(before + 1);
  failing = false;
  const shown = () => webkit.evaluate(() => document.querySelector("textarea.audit-box") !== null);
  await expect.poll(shown).toBe(true);
  await webkit.click('//nav//a[text()="Embed"]');
  await expect
    .poll(() => webkit.evaluate(() => document.querySelector("textarea")?.value ?? null))
    .toBe("kept");
});
