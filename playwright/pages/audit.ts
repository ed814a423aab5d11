import type { Locator, Page } from "@playwright/test";

/** Locators and actions of the Audit page, without assertions. */
export class AuditPage {
  readonly page: Page;
  readonly box: Locator;
  readonly verdict: Locator;
  readonly seal: Locator;
  readonly code: Locator;
  readonly sheet: Locator;
  readonly receiptChecks: Locator;
  readonly batch: Locator;
  readonly list: Locator;
  readonly failed: Locator;
  readonly provenance: Locator;
  readonly context: Locator;
  readonly intakeAlert: Locator;
  readonly #url: string;

  constructor(page: Page, url: string) {
    this.page = page;
    this.#url = url;
    this.box = page.getByLabel("Receipt, audit bundle, or a file of several");
    this.sheet = page.getByRole("article");
    this.seal = this.sheet.locator(".seal");
    this.verdict = this.sheet.getByRole("heading", { level: 3 }).first();
    this.code = this.seal.locator(".seal-code");
    this.receiptChecks = page.getByRole("table", { name: "Checks of the receipt" });
    this.batch = page.locator(".batch");
    this.list = page.getByRole("listbox", { name: "Receipts" });
    this.failed = page.locator(".audit-failed");
    this.provenance = this.seal.locator(".provenance");
    this.intakeAlert = page.locator(".audit-intake").getByRole("alert");
    this.context = page.locator(".audit-context");
  }

  async open(fragment = ""): Promise<void> {
    await this.page.goto(new URL(`/audit${fragment}`, this.#url).href);
    await this.box.waitFor();
  }

  /** Pastes text into the box. */
  async paste(text: string): Promise<void> {
    await this.box.evaluate((box, pasted) => {
      const data = new DataTransfer();
      data.setData("text/plain", pasted);
      const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
      const field = box as HTMLTextAreaElement;
      if (!field.dispatchEvent(event)) return;
      // Default action of the browser for a paste that is not prevented.
      const setter = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value")?.set;
      const selected = field.selectionEnd > field.selectionStart;
      const kept = selected ? field.value.slice(0, field.selectionStart) : field.value;
      const rest = selected ? field.value.slice(field.selectionEnd) : "";
      setter?.call(field, kept + pasted + rest);
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }, text);
  }

  /** Adds files. */
  async drop(files: readonly { name: string; content: string | Buffer }[]): Promise<void> {
    await this.page.getByLabel("Add files").setInputFiles(
      files.map(({ name, content }) => ({
        name,
        mimeType: "application/octet-stream",
        buffer: Buffer.from(content),
      })),
    );
  }

  async clear(): Promise<void> {
    await this.page.getByRole("button", { name: "Clear" }).click();
  }

  async sample(name: string): Promise<void> {
    await this.page.getByRole("button", { name, exact: true }).click();
  }

  /** One check of the receipt, by its stable name. */
  check(name: string): Locator {
    return this.receiptChecks.locator(`tr[data-check="${name}"]`);
  }

  async tab(name: string): Promise<void> {
    await this.page.getByRole("tab", { name, exact: true }).click();
  }
}
