import { defineConfig } from "@playwright/test";

/**
 * Real Chromium against real processes. Uses Debian's browser, which can be installed everywhere that this project builds;
 * `CLEARSEAL_CHROMIUM` names another executable.
 */
export default defineConfig({
  testDir: "tests",
  outputDir: "results",
  timeout: 60_000,
  expect: { timeout: 15_000 },
  // Every test starts its own servers, and waits for timers of the page for about a third of its time: three keep two processors busy.
  workers: 3,
  fullyParallel: true,
  forbidOnly: true,
  reporter: [["list"]],
  use: {
    browserName: "chromium",
    viewport: { width: 1280, height: 900 },
    // Screenshots of each step take a third of the time of all tests; `--trace on` enables them for debugging.
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
