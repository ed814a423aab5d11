import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";
import { parseKey } from "./minisign.ts";
import type { WatchedPage } from "./release.ts";

const here = import.meta.dirname;

/** JSON file with pages that a publisher builds into the extension, so that users type no key. */
const pages = readPages(process.env.CLEARSEAL_EXTENSION_PAGES);

/** `vite build --config extension/vite.config.ts --mode chromium`, or `firefox`. */
export default defineConfig(({ mode }) => ({
  root: here,
  base: "./",
  publicDir: false,
  plugins: [writeManifest(mode)],
  define: { __CLEARSEAL_PAGES__: JSON.stringify(pages) },
  build: {
    outDir: join(here, "..", "..", "target", "extension", mode),
    emptyOutDir: true,
    target: "es2023",
    modulePreload: false,
    rolldownOptions: {
      input: ["popup.html", "options.html", "background.ts"].map((name) => join(here, name)),
      output: { entryFileNames: "[name].js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
}));

function writeManifest(mode: string): Plugin {
  if (mode !== "chromium" && mode !== "firefox") throw new Error(`${mode} is neither chromium nor firefox`);
  const { version } = JSON.parse(readFileSync(join(here, "..", "package.json"), "utf8"));
  const isFirefox = mode === "firefox";
  const manifest = {
    manifest_version: 3,
    name: "Clearseal release check",
    version,
    description: "Compares each file of a page with the release that its publisher signed.",
    action: { default_popup: "popup.html" },
    options_ui: { page: "options.html", open_in_tab: true },
    permissions: [
      "activeTab",
      "storage",
      "webRequest",
      ...(isFirefox ? ["webRequestBlocking", "webRequestFilterResponse"] : []),
    ],
    ...(pages.length > 0 && { host_permissions: [...new Set(pages.flatMap(patternsOf))] }),
    // Each address is asked for when the user adds a page.
    optional_host_permissions: ["https://*/*", "http://*/*"],
    background: isFirefox
      ? { scripts: ["background.js"], type: "module" }
      : { service_worker: "background.js", type: "module" },
    ...(isFirefox
      ? {
          browser_specific_settings: {
            gecko: { id: "release-check@clearseal", strict_min_version: "129.0" },
          },
        }
      : { minimum_chrome_version: "137" }),
  };
  return {
    name: "extension-manifest",
    generateBundle() {
      this.emitFile({
        type: "asset",
        fileName: "manifest.json",
        source: `${JSON.stringify(manifest, null, 2)}\n`,
      });
    },
  };
}

/** Patterns of the permissions have no port. */
function patternsOf({ origin, manifest }: WatchedPage): string[] {
  return [origin, manifest].map((address) => {
    const { protocol, hostname } = new URL(address);
    return `${protocol}//${hostname}/*`;
  });
}

function readPages(file: string | undefined): WatchedPage[] {
  if (file === undefined || file === "") return [];
  const pages = JSON.parse(readFileSync(file, "utf8")) as WatchedPage[];
  for (const { origin, key, manifest } of pages) {
    if (new URL(origin).origin !== origin) throw new Error(`${origin} is not an origin`);
    parseKey(key);
    new URL(manifest);
  }
  return pages;
}
