import { defineConfig } from "@playwright/test";
import common from "./playwright.config.ts";

/** How fast the page is there: `npm run test:speed --workspace=playwright`. One load at a time, so that none disturbs another. */
export default defineConfig({
  ...common,
  testDir: "speed",
  workers: 1,
  fullyParallel: false,
  timeout: 180_000,
});
