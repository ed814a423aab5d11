import { defineConfig } from "@playwright/test";
import common from "./playwright.config.ts";

/** Examples without a browser: `npm test -- --only examples`. */
export default defineConfig({ ...common, testDir: "examples", workers: 1 });
