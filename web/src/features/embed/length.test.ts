import { describe, expect, it } from "vitest";
import { atOnce } from "../../ui/slices";
import { lengthOf, lengthWords } from "./length";

const words = (count: number, word = "word") => Array.from({ length: count }, () => word).join(" ");

describe("lengthOf", () => {
  it("is certain where even one piece a word is too many", () => {
    // Two marks stand around every text.
    expect(lengthOf(words(254), 256)).toBe("whole");
    expect(lengthOf(words(255), 256)).toBe("longer");
  });

  it("counts what is always cut apart: punctuation, symbols, ideographs", () => {
    expect(lengthOf(".".repeat(300), 256)).toBe("longer");
    expect(lengthOf("漢".repeat(300), 256)).toBe("longer");
    expect(lengthOf("+$".repeat(150), 256)).toBe("longer");
  });

  it("is uncertain where words may fall apart", () => {
    expect(lengthOf(words(150, "internationalisation"), 256)).toBe("may be longer");
    expect(lengthOf(words(100, "x7k9q2w4"), 256)).toBe("may be longer");
  });

  it("is quiet about ordinary text that fits", () => {
    expect(lengthOf("The patient reports chest pain after climbing stairs.", 256)).toBe("whole");
    expect(lengthOf(words(24, "The patient reports pain after climbing."), 256)).toBe("whole");
  });

  it("takes a word that is no word for one piece", () => {
    expect(lengthOf("x".repeat(5_000), 256)).toBe("whole");
  });
});

describe("lengthWords", () => {
  it("says nothing where all is read", () => {
    expect(atOnce(lengthWords(["a", "b"], 256))).toBeNull();
  });

  it("keeps certain and uncertain apart", () => {
    const texts = ["short", words(300), words(150, "internationalisation")];
    expect(atOnce(lengthWords(texts, 256))).toMatch(
      /^1 of 3 texts is longer than the 256 tokens .*, and 1 more may be\./,
    );
    expect(atOnce(lengthWords([words(300)], 256))).toMatch(/^This text is longer/);
    expect(atOnce(lengthWords([texts[2] ?? ""], 256))).toMatch(/^This text may be longer/);
  });
});
