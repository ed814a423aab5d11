import { defineConfig } from "@playwright/test";
import common from "./playwright.config.ts";

/** Load time of the page: `npm run test:speed --workspace=playwright`. One load at a time, so that loads do not disturb each other. */
export default defineConfig({
  ...common,
  testDir: "speed",
  workers: 1,
  fullyParallel: false,
  timeout: 180_000,
});
