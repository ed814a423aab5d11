import { Marionette } from "../fixtures/marionette.ts";
import { Publisher } from "../fixtures/signed-release.ts";
import { test as base, expect, type Stack } from "../fixtures/stack.ts";

/** Firefox with the temporary add-on, whose one page is the stack's. */
const test = base.extend<{ publisher: Publisher; firefox: Marionette }>({
  publisher: async ({ stack }, use) => {
    const publisher = await Publisher.start("firefox", stack.url);
    await use(publisher);
    await publisher.close();
  },
  firefox: async ({ publisher }, use) => {
    const firefox = await Marionette.start();
    await firefox.installAddon(publisher.extension);
    await use(firefox);
    await firefox.close();
  },
});

/** Badge and title of the visible tab: the toolbar's own record, which the panel of extensions shows. */
function badge(firefox: Marionette): Promise<unknown> {
  return firefox.run(
    "chrome",
    `const { ExtensionParent } = ChromeUtils.importESModule("resource://gre/modules/ExtensionParent.sys.mjs");
    const { extension } = WebExtensionPolicy.getByID("release-check@clearseal");
    const window = Services.wm.getMostRecentWindow("navigator:browser");
    const { action } = ExtensionParent.apiManager.global.browserActionFor(extension);
    const { badgeText, title } = action.getContextData(window.gBrowser.selectedTab);
    return badgeText + " " + title;`,
  );
}

const VERIFIED = "✓ Clearseal release check: the signed release";
const DIFFERS = /^! .* differs from the signed release, .*: other bytes than the release's$/;

const read = (firefox: Marionette, script: string) => firefox.run("content", `return ${script}`);
const verdict = (firefox: Marionette) =>
  read(firefox, 'document.querySelector("section.seal h2")?.textContent ?? ""');

function change(stack: Stack, path: string): void {
  stack.host.tamper(path, (answer) => ({ ...answer, body: Buffer.concat([answer.body, Buffer.from("\n")]) }));
}

test("the toolbar shows the signed release, of files from the browser's cache too", async ({
  firefox,
  stack,
}) => {
  await firefox.goto(stack.url);
  await expect.poll(() => verdict(firefox)).toBe("SIMULATED");
  await expect.poll(() => badge(firefox)).toBe(VERIFIED);
  await firefox.goto(new URL("/audit", stack.url).href);
  await expect.poll(() => read(firefox, 'document.querySelector("textarea.audit-box") !== null')).toBe(true);
  await expect.poll(() => badge(firefox)).toBe(VERIFIED);
  await firefox.reload();
  await expect.poll(() => badge(firefox)).toBe(VERIFIED);
  await firefox.goBack();
  await expect.poll(() => verdict(firefox)).toBe("SIMULATED");
  await expect.poll(() => badge(firefox)).toBe(VERIFIED);
});

test("a changed file differs, and none of its bytes reach the page", async ({ firefox, stack }) => {
  // The page names the hash of each file that it reads, so this one is read by the test alone.
  change(stack, "/integrity-policy.txt");
  await firefox.goto(stack.url);
  await expect.poll(() => badge(firefox)).toBe(VERIFIED);
  const read = (path: string) =>
    firefox.run("content", `return fetch("${path}").then((answer) => answer.text())`);
  expect(await read("/content-security-policy.txt")).toContain("default-src 'none'");
  expect(await read("/integrity-policy.txt")).toBe("");
  await expect.poll(() => badge(firefox)).toMatch(DIFFERS);
});

test("a changed document is not shown", async ({ firefox, stack }) => {
  change(stack, "/audit");
  await firefox.goto(new URL("/audit", stack.url).href);
  await expect.poll(() => badge(firefox)).toMatch(DIFFERS);
  expect(await read(firefox, "document.body.innerText")).toContain("did not show this page");
  expect(await read(firefox, "document.scripts.length")).toBe(0);
});

test("a document whose header adds a style sheet is not shown", async ({ firefox, stack }) => {
  stack.host.tamper("/audit", (answer) => {
    const headers = new Headers(answer.headers);
    headers.set("link", "</another.css>; rel=stylesheet");
    return { ...answer, headers };
  });
  await firefox.goto(new URL("/audit", stack.url).href);
  await expect.poll(() => badge(firefox)).toMatch(/^! .*: a header adds a style sheet$/);
  expect(await read(firefox, "document.body.innerText")).toContain("did not show this page");
});

test("a tab that left the page shows no verdict over it", async ({ firefox, publisher, stack }) => {
  await firefox.goto(stack.url);
  await expect.poll(() => badge(firefox)).toBe(VERIFIED);
  await firefox.goto(new URL("/release.json", publisher.address).href);
  await expect.poll(() => badge(firefox)).toBe(" Clearseal release check");
  await firefox.goto(stack.url);
  await expect.poll(() => badge(firefox)).toBe(VERIFIED);
});

test("without a valid signature the state is unknown, and the page works", async ({
  firefox,
  publisher,
  stack,
}) => {
  publisher.signed -= 8 * 24 * 3600;
  await firefox.goto(stack.url);
  await expect.poll(() => verdict(firefox)).toBe("SIMULATED");
  await expect.poll(() => badge(firefox)).toMatch(/^\? /);
});
