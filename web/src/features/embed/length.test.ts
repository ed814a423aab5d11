import { describe, expect, it } from "vitest";
import { atOnce } from "../../ui/slices";
import { describeLength, lengthOf } from "./length";

const words = (count: number, word = "word") => Array.from({ length: count }, () => word).join(" ");

describe("lengthOf", () => {
  it("is certain if even one token per word exceeds the limit", () => {
    // The model adds two special tokens to every text.
    expect(lengthOf(words(254), 256)).toBe("whole");
    expect(lengthOf(words(255), 256)).toBe("longer");
  });

  it("counts characters that are always separate tokens: punctuation, symbols, ideographs", () => {
    expect(lengthOf(".".repeat(300), 256)).toBe("longer");
    expect(lengthOf("漢".repeat(300), 256)).toBe("longer");
    expect(lengthOf("+$".repeat(150), 256)).toBe("longer");
  });

  it("is uncertain if words may become several tokens", () => {
    expect(lengthOf(words(150, "internationalisation"), 256)).toBe("may be longer");
    expect(lengthOf(words(100, "x7k9q2w4"), 256)).toBe("may be longer");
  });

  it("reports ordinary text that fits as whole", () => {
    expect(lengthOf("The patient reports chest pain after climbing stairs.", 256)).toBe("whole");
    expect(lengthOf(words(24, "The patient reports pain after climbing."), 256)).toBe("whole");
  });

  it("counts an overlong word as one token", () => {
    expect(lengthOf("x".repeat(5_000), 256)).toBe("whole");
  });
});

describe("describeLength", () => {
  it("returns null if every text fits", () => {
    expect(atOnce(describeLength(["a", "b"], 256))).toBeNull();
  });

  it("distinguishes certain and uncertain texts", () => {
    const texts = ["short", words(300), words(150, "internationalisation")];
    expect(atOnce(describeLength(texts, 256))).toMatch(
      /^1 of 3 texts is longer than the 256 tokens .*, and 1 more may be\./,
    );
    expect(atOnce(describeLength([words(300)], 256))).toMatch(/^This text is longer/);
    expect(atOnce(describeLength([texts[2] ?? ""], 256))).toMatch(/^This text may be longer/);
  });
});
