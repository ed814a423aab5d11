import { describe, expect, test } from "vitest";
import { pageCommand, readList } from "./page-files";

const HASH = "0123456789abcdef".repeat(4);

describe("the list of a page's files", () => {
  test("is read line by line", () => {
    expect(readList(`${HASH}  assets/index-Dq_1.js\n${HASH}  index.html\n`)).toEqual([
      { name: "assets/index-Dq_1.js", sha256: HASH },
      { name: "index.html", sha256: HASH },
    ]);
  });

  test.each([
    ["nothing", ""],
    ["an error page", "<!doctype html>\n"],
    ["a truncated hash", `${HASH.slice(1)}  index.html\n`],
    ["one space", `${HASH} index.html\n`],
    ["a name with spaces", `${HASH}  index html\n`],
    ["a truncated line", `${HASH}  index.html`],
    ["too long", `${HASH}  index.html\n`.repeat(2_001)],
  ])("is rejected if it is %s", (_, text) => {
    expect(readList(text)).toBeNull();
  });

  test("is compared with an origin by a command that takes its names from the build", () => {
    expect(pageCommand("https://embed.example")).toContain('"https://embed.example/$file"');
    expect(pageCommand("https://embed.example")).toContain("< files.txt");
  });
});
