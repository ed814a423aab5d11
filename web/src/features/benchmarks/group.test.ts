import { describe, expect, it } from "vitest";
import { groupIfLong, withoutHeading } from "./group";

const letters = (text: string) => groupIfLong([...text], (letter) => letter.toLowerCase());

describe("headings", () => {
  it("group a long list in order of appearance", () => {
    expect(letters("aBAbcaaaa").map(({ heading, items }) => [heading, items.join("")])).toEqual([
      ["a", "aAaaaa"],
      ["b", "Bb"],
      ["c", "c"],
    ]);
  });

  it.each(["aBAbcaaa", "aaaaaaaaaa", "abcdefghij"])("are omitted for %s", (text) => {
    expect(letters(text)).toEqual([{ heading: null, items: [...text] }]);
  });

  it.each([
    [null, "64 B, unix", "64 B, unix"],
    ["unix", "64 B, unix", "64 B"],
    ["COSE signature", "COSE signature, aws-lc-rs", "aws-lc-rs"],
    ["CBOR payload", "CBOR payload", ""],
    ["HPKE", "HPKE encrypt, 1 KiB", "HPKE encrypt, 1 KiB"],
    ["a, b", "x, a, b, y", "x, y"],
  ])("%s is not repeated in %s", (heading, name, left) => {
    expect(withoutHeading(heading, name)).toBe(left);
  });
});
