import type { Download, Locator, Page } from "@playwright/test";

/** Locators and actions of the Embed page, without assertions. */
export class EmbedPage {
  readonly verdict: Locator;
  readonly seal: Locator;
  readonly code: Locator;
  readonly text: Locator;
  readonly submit: Locator;
  readonly receipt: Locator;
  readonly files: Locator;
  readonly checks: Locator;
  readonly progress: Locator;
  readonly provenance: Locator;
  readonly page: Page;
  readonly #url: string;

  constructor(page: Page, url: string) {
    this.page = page;
    this.#url = url;
    this.seal = page.locator("section.seal");
    this.verdict = this.seal.getByRole("heading", { level: 2 });
    this.code = this.seal.locator(".seal-code");
    this.text = page.getByLabel("One item per line");
    this.submit = page.getByRole("button", { name: /^Embed/ });
    this.files = page.getByLabel("Add files");
    this.receipt = page.getByRole("region", { name: "Receipt", exact: true });
    this.checks = page.getByRole("table", { name: "Checks of the attestation document" });
    this.progress = page.locator(".embed-text");
    this.provenance = this.seal.locator(".seal-face .provenance");
  }

  async open(path = "/"): Promise<void> {
    await this.page.goto(new URL(path, this.#url).href);
  }

  async verifyAgain(): Promise<void> {
    await this.page.getByRole("button", { name: "Verify again" }).click();
  }

  async openSeal(): Promise<void> {
    await this.page.getByRole("button", { name: /^Open the seal/ }).click();
  }

  async embed(lines: string): Promise<void> {
    await this.text.fill(lines);
    await this.submit.click();
  }

  /** One check of the open seal, by its stable name. */
  check(name: string): Locator {
    return this.checks.locator(`tr[data-check="${name}"]`);
  }

  /** Saves a file with the named button, and returns its contents. */
  async save(button: string): Promise<Buffer> {
    const [download] = await Promise.all([
      this.page.waitForEvent("download"),
      this.page.getByRole("button", { name: button, exact: true }).click(),
    ]);
    return contents(download);
  }
}

async function contents(download: Download): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
