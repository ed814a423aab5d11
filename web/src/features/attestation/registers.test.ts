import { describe, expect, it } from "vitest";
import { firstDifference } from "./Registers";

describe("firstDifference", () => {
  it("finds the byte, not the digit", () => {
    expect(firstDifference("00ff10", "00ff20")).toBe(2);
    expect(firstDifference("00ff10", "00fe10")).toBe(1);
    expect(firstDifference("00ff", "00ff10")).toBe(2);
    expect(firstDifference("00ff", "00ff")).toBe(-1);
  });
});
