import { defineConfig } from "@playwright/test";
import common from "./playwright.config.ts";

/**
 * Debian's Firefox against the same processes. Playwright supports only its own build of Firefox, so these tests use WebDriver
 * BiDi through `puppeteer-core`; `CLEARSEAL_FIREFOX` names another executable.
 */
export default defineConfig({
  ...common,
  testDir: "firefox",
  workers: 1,
});
