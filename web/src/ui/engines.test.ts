import { expect, it } from "vitest";

const sheets = Object.entries(
  import.meta.glob<string>("../**/*.css", { query: "?raw", import: "default", eager: true }),
);

/** Lines of all style sheets that match, with their files. */
const linesWith = (pattern: RegExp) =>
  sheets.flatMap(([file, text]) =>
    text.split("\n").flatMap((line) => (pattern.test(line) ? [`${file}: ${line.trim()}`] : [])),
  );

it("has no decoration shorthand with a style, which WebKit ignores", () => {
  expect(sheets.length).toBeGreaterThan(20);
  expect(linesWith(/text-decoration:\s*\S+\s+\S/)).toEqual([]);
});

it("has no transform-origin in pixels, which WebKit misplaces inside a zoomed svg", () => {
  expect(linesWith(/transform-origin:.*\dpx/)).toEqual([]);
});
