import type { Locator, Page } from "@playwright/test";

/** Locators and actions of the Benchmarks page, without assertions. */
export class BenchmarksPage {
  readonly page: Page;
  readonly views: Locator;
  readonly heading: Locator;
  readonly file: Locator;
  readonly refusal: Locator;
  readonly picker: Locator;
  readonly address: string;

  constructor(page: Page, url: string) {
    this.page = page;
    this.address = new URL("/benchmarks", url).href;
    this.views = page.getByRole("navigation", { name: "Figures" });
    this.heading = page.locator(".bench-view").getByRole("heading", { level: 2 });
    this.file = page.locator('.drop input[type="file"]');
    this.refusal = page.locator(".drop").getByRole("alert");
    this.picker = page.locator(".picker");
  }

  async open(search = ""): Promise<void> {
    await this.page.goto(`${this.address}${search}`);
    await this.heading.waitFor();
  }

  async view(name: string): Promise<void> {
    await this.views.getByRole("link", { name, exact: true }).click();
  }

  chart(name: string): Locator {
    return this.page.getByRole("figure", { name });
  }

  async drop(name: string, content: string | Buffer): Promise<void> {
    await this.file.setInputFiles({
      name,
      mimeType: "application/json",
      buffer: Buffer.from(content as string),
    });
  }
}
