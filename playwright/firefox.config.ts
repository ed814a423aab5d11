import { defineConfig } from "@playwright/test";
import common from "./playwright.config.ts";

/**
 * Debian's Firefox before the same processes. Playwright drives only a Firefox that it has changed itself, so these tests
 * speak WebDriver BiDi through `puppeteer-core`; `CLEARSEAL_FIREFOX` names another one.
 */
export default defineConfig({
  ...common,
  testDir: "firefox",
  workers: 1,
});
