import { defineConfig } from "@playwright/test";
import common from "./playwright.config.ts";

/** The browser tests against a booted enclave image instead of a process: `npm run test:enclave`. */
export default defineConfig({
  ...common,
  testDir: "enclave",
  // Emulated inference is two hundred times slower.
  timeout: 300_000,
  expect: { timeout: 120_000 },
  workers: 1,
});
