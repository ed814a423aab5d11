import type { Page } from "@playwright/test";
import { expect, test } from "../fixtures/bench.ts";

interface Box {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

async function boxes(page: Page, selectors: readonly string[]): Promise<Box[]> {
  return Promise.all(
    selectors.map((selector) =>
      page
        .locator(selector)
        .filter({ visible: true })
        .evaluate((element) => {
          const { x, y, width } = element.getBoundingClientRect();
          const text = (element.textContent ?? "").replace(/\s+/g, " ").trim();
          return { text, x: Math.round(x), y: Math.round(y), width: Math.round(width) };
        }),
    ),
  );
}

const HEAD = [".page-head h1", ".page-head > .prose"];

for (const width of [360, 1280]) {
  for (const path of ["/", "/benchmarks", "/audit"]) {
    test(`content that ${path} paints before its script does not move, ${width} px`, async ({
      bench,
      page,
    }) => {
      await page.setViewportSize({ width, height: 800 });
      const script = /assets\/index-.*\.js$/;
      await page.route(script, (route) => route.abort());
      const url = new URL(path, bench.address).href;
      await page.goto(url);
      const before = await boxes(page, HEAD);
      await page.unroute(script);
      await page.goto(url);
      await page.locator(".page-head h1[tabindex]").waitFor();
      expect(await boxes(page, HEAD)).toEqual(before);
    });
  }
}

test("a page without the seal sends no request to the enclave, and loads no verifier", async ({
  bench,
  page,
}) => {
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await bench.open();
  await page.waitForTimeout(1_000);
  expect(asked.filter((path) => path.startsWith("/v1/") || path.endsWith(".wasm"))).toEqual([]);
  await page.getByRole("link", { name: "Embed" }).click();
  await expect.poll(() => asked.filter((path) => path.startsWith("/v1/attestation")).length).toBe(1);
});
