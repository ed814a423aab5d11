import { defineConfig } from "@playwright/test";

/**
 * Real Chromium against real processes. Debian's browser is used because it is the one that can be installed everywhere
 * this project builds; `CLEARSEAL_CHROMIUM` names another.
 */
export default defineConfig({
  testDir: "tests",
  outputDir: "results",
  timeout: 60_000,
  expect: { timeout: 15_000 },
  // Every test starts servers of its own, and a browser: more than two at once only makes them wait for each other.
  workers: 2,
  fullyParallel: true,
  forbidOnly: true,
  reporter: [["list"]],
  use: {
    browserName: "chromium",
    viewport: { width: 1280, height: 900 },
    // Pictures of each step take a third of the time of all tests; `--trace on` makes them where one must be understood.
    trace: { mode: "retain-on-failure", screenshots: false, snapshots: false },
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: process.env.CLEARSEAL_CHROMIUM ?? "/usr/bin/chromium",
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    },
  },
});
