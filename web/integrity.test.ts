import { describe, expect, it } from "vitest";
import { type BuiltPage, hashOf, pinPage } from "./integrity.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
/** `printf abc | openssl dgst -sha256 -binary | base64` */
const ABC = "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

function page(tags: string, files: Record<string, string>): BuiltPage {
  return {
    html: `<html><head>\n${tags}</head></html>`,
    files: new Map(Object.entries(files).map(([path, text]) => [path, bytes(text)])),
    parts: ["assets/Part-1.js"],
    contentPolicy: ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"],
  };
}

function mapOf(html: string): string {
  return /<script type="importmap">(.*?)<\/script>/.exec(html)?.[1] ?? "";
}

describe("pinPage", () => {
  it("gives every script and style its hash, and the mode in which the browser checks it", () => {
    const { html } = pinPage(
      page(
        '<script src="/theme.js"></script><script type="module" crossorigin src="/assets/index-1.js"></script><link rel="stylesheet" href="/a.css"><link rel="icon" href="/favicon.svg" />',
        { "theme.js": "abc", "assets/index-1.js": "abc", "a.css": "abc", "favicon.svg": "x" },
      ),
    );
    expect(html).toContain(`<script src="/theme.js" crossorigin integrity="${ABC}"></script>`);
    expect(html).toContain(
      `<script type="module" crossorigin src="/assets/index-1.js" integrity="${ABC}"></script>`,
    );
    expect(html).toContain(`<link rel="stylesheet" href="/a.css" crossorigin integrity="${ABC}">`);
    expect(html).toContain('<link rel="icon" href="/favicon.svg" />');
  });

  it("lists what loads later in an import map, before every script", () => {
    const { html } = pinPage(
      page('<script src="/theme.js"></script>', {
        "theme.js": "t",
        "assets/Part-1.js": "abc",
        "assets/data-1.json": "abc",
        "assets/data-1.json.gz": "x",
        "index.html": "x",
        "files.txt": "x",
      }),
    );
    const { integrity } = JSON.parse(mapOf(html)) as { integrity: Record<string, string> };
    expect(integrity["/assets/Part-1.js"]).toBe(ABC);
    expect(integrity["/assets/Part-1.js?attempt=2"]).toBe(ABC);
    expect(integrity["/assets/data-1.json"]).toBe(ABC);
    expect(integrity["/assets/data-1.json?attempt=2"]).toBeUndefined();
    for (const path of ["/assets/data-1.json.gz", "/index.html", "/files.txt"]) {
      expect(integrity[path]).toBeUndefined();
    }
    expect(html.indexOf("importmap")).toBeLessThan(html.indexOf("theme.js"));
  });

  it("allows the import map by its hash, in the page and in the header", () => {
    const { html, contentPolicy } = pinPage(page("", { "assets/Part-1.js": "abc" }));
    const scripts = `script-src 'self' '${hashOf(bytes(mapOf(html)))}'`;
    expect(contentPolicy).toBe(`default-src 'none'; ${scripts}; frame-ancestors 'none'`);
    expect(html).toContain(`content="default-src 'none'; ${scripts}">`);
    expect(html.indexOf("http-equiv")).toBeLessThan(html.indexOf("importmap"));
  });

  it("refuses an inline script, and a file that the build has not written", () => {
    for (const tag of ["<script>1</script>", '<script src="/absent.js"></script>']) {
      expect(() => pinPage(page(tag, {}))).toThrow("names no file of the page");
    }
  });
});
