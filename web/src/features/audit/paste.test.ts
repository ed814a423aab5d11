import { describe, expect, it } from "vitest";
import { MAX_PASTED_CHARACTERS } from "./audit-store";
import { MAX_TYPED_CHARACTERS, pasteDestination } from "./paste";

describe("pasted or dropped text", () => {
  it("goes into the box up to its limit, and is never truncated", () => {
    expect(pasteDestination("x".repeat(MAX_TYPED_CHARACTERS), 0)).toBe("box");
    expect(pasteDestination("x".repeat(MAX_TYPED_CHARACTERS), 1)).toBe("attachment");
    expect(pasteDestination("x".repeat(MAX_PASTED_CHARACTERS), 0)).toBe("attachment");
    expect(pasteDestination("x".repeat(MAX_PASTED_CHARACTERS + 1), 0)).toBe("too-long");
  });
});
