import { defineConfig } from "@playwright/test";
import common from "./playwright.config.ts";

/**
 * Debian's WebKitGTK, the engine of Safari, against the same processes. Playwright supports only its own build of WebKit, so these
 * tests use WebDriver: WebKitWebDriver starts MiniBrowser, on a display of Xvfb. `CLEARSEAL_WEBKIT_DRIVER` names another driver.
 */
export default defineConfig({
  ...common,
  testDir: "webkit",
  workers: 1,
});
