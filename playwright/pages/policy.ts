import type { Locator, Page } from "@playwright/test";

/** Locators and actions of the policy control, on any page. */
export class PolicyControl {
  readonly region: Locator;
  readonly stop: Locator;
  readonly useBuiltIn: Locator;
  readonly #picker: Locator;

  constructor(page: Page) {
    this.region = page.getByRole("region", { name: "Trust policy", exact: true });
    this.stop = this.region.getByRole("button", { name: "Stop using it" });
    this.useBuiltIn = this.region.getByRole("button", { name: "Use the built-in policy" });
    this.#picker = page.getByLabel("Choose a trust policy", { exact: true });
  }

  async choose(name: string, content: string | Buffer): Promise<void> {
    await this.#picker.setInputFiles({ name, mimeType: "application/json", buffer: Buffer.from(content) });
  }
}
