import { describe, expect, it } from "vitest";
import { MAX_PASTED_CHARACTERS } from "./audit-store";
import { MAX_TYPED_CHARACTERS, placeOfText } from "./taken";

describe("text that comes in one piece", () => {
  it("goes into the box while that stays usable, and is never cut", () => {
    expect(placeOfText("x".repeat(MAX_TYPED_CHARACTERS), 0)).toBe("box");
    expect(placeOfText("x".repeat(MAX_TYPED_CHARACTERS), 1)).toBe("beside it");
    expect(placeOfText("x".repeat(MAX_PASTED_CHARACTERS), 0)).toBe("beside it");
    expect(placeOfText("x".repeat(MAX_PASTED_CHARACTERS + 1), 0)).toBe("nowhere: too long");
  });
});
