import { defineConfig } from "@playwright/test";
import common from "./playwright.config.ts";

/** Examples that need no browser: `npm test -- --only examples`. */
export default defineConfig({ ...common, testDir: "examples", workers: 1 });
