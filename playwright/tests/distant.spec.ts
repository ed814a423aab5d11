import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "@playwright/test";
import { root } from "../fixtures/processes.ts";
import { expect, type Stack, test } from "../fixtures/stack.ts";
import { StaticServer } from "../fixtures/static.ts";
import { AuditPage } from "../pages/audit.ts";
import { EmbedPage } from "../pages/embed.ts";

/** A page built for a service of another origin. The task runner builds it, and sets its folder and the service. */
const web = process.env.CLEARSEAL_DISTANT_WEB ?? join(root, "target", "clearseal", "distant-web");
const service = process.env.CLEARSEAL_DISTANT_SERVICE ?? "http://service.clearseal.test";

/** A browser that resolves the service's host to this test's stack, and no other host. */
async function launchBrowser(stack: Stack): Promise<Browser> {
  const { launchOptions } = test.info().project.use;
  const rules = `MAP ${new URL(service).hostname}:80 ${new URL(stack.url).host}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`;
  const args = [...(launchOptions?.args ?? []), `--host-resolver-rules=${rules}`];
  return chromium.launch({ ...launchOptions, args });
}

function collectMessages(page: Page): string[] {
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  return complaints;
}

for (const [how, withHeader] of [
  ["with its policy as a header", true],
  ["with no header at all", false],
] as const) {
  test(`a page of another origin, ${how}, verifies, embeds, audits and looks a receipt up`, async ({
    stack,
  }) => {
    const policy = (await readFile(join(web, "content-security-policy.txt"), "utf8")).trim();
    const pages = await StaticServer.start(web, withHeader ? { "content-security-policy": policy } : {});
    const browser = await launchBrowser(stack);
    try {
      const page = await browser.newPage();
      const complaints = collectMessages(page);
      const origins = new Set<string>();
      page.on("request", (request) => void origins.add(new URL(request.url()).origin));

      const embed = new EmbedPage(page, pages.url);
      await embed.open();
      await expect(embed.verdict).toHaveText("SIMULATED");
      await expect(page.locator("footer")).toContainText(`contacts its own origin and ${service}`);
      await embed.embed("The cat sleeps.\nA kitten naps.");
      await expect(embed.receipt).toContainText("SIMULATED");
      const lines = Array.from({ length: 298 }, (_, at) => `line ${at}`).join("\n");
      await embed.files.setInputFiles({
        name: "lines.txt",
        mimeType: "text/plain",
        buffer: Buffer.from(lines),
      });
      await embed.submit.click();
      await expect(embed.progress).toContainText("300 of 300 items embedded", { timeout: 30_000 });
      expect(stack.host.channels).toBe(1);

      const bundle = (await embed.save("Download bundle")).toString("utf8");
      const audit = new AuditPage(page, pages.url);
      await audit.open();
      await audit.paste(bundle);
      await expect(audit.verdict).toHaveText("SIMULATED");
      await expect(page.locator(".audit-log")).toContainText(`sends the receipt's hash to ${service}`);
      // The host publishes its log at fixed intervals, and the page may be faster.
      await expect(async () => {
        await page.getByRole("button", { name: "Look it up" }).click();
        await expect(page.locator('[data-log="simulated"]')).toContainText("In the log", { timeout: 1_000 });
      }).toPass({ timeout: 20_000 });

      expect(complaints).toEqual([]);
      expect([...origins].sort()).toEqual([pages.url, service].sort());
      // The page's server received no request for the service, and the service none for the page.
      expect(pages.asked.filter((path) => path.startsWith("/v1/"))).toEqual([]);
      expect(stack.host.seen.filter(({ path }) => !path.startsWith("/v1/"))).toEqual([]);
    } finally {
      await browser.close();
      await pages.close();
    }
  });
}

test("a page of another origin cannot contact a third origin", async ({ stack }) => {
  const pages = await StaticServer.start(web);
  const browser = await launchBrowser(stack);
  try {
    const page = await browser.newPage();
    await page.goto(pages.url);
    // The stack's own address is not the origin that the page was built for.
    const reached = (url: string) => page.evaluate((url) => fetch(url).then(Boolean, () => false), url);
    expect(await reached(`${service}/v1/attestation?nonce=${"0".repeat(64)}`)).toBe(true);
    expect(await reached(`${stack.url}/v1/attestation?nonce=${"0".repeat(64)}`)).toBe(false);
  } finally {
    await browser.close();
    await pages.close();
  }
});

test("the page that host-proxy serves has the same policy in its meta element, its file and the header", async ({
  page,
  stack,
}) => {
  const answer = await page.goto(stack.url);
  const header = answer?.headers()["content-security-policy"] ?? "";
  const file = await (await page.request.get(`${stack.url}/content-security-policy.txt`)).text();
  expect(file.trim()).toBe(header);
  const meta = await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute("content");
  // The only directive that a meta element cannot contain.
  expect(`${meta}; frame-ancestors 'none'`).toBe(header);
});
