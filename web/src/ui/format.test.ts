import { describe, expect, it } from "vitest";
import { bytes, countdown, duration, fixed, milliseconds, plural, shortHash } from "./format";

describe("format", () => {
  it("shows head and tail of a hash", () => {
    expect(shortHash("641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b")).toBe(
      "641a0321…bb5b",
    );
    expect(shortHash("a10138220a")).toBe("a10138220a");
  });

  it.each([
    [-5, "0 ms"],
    [999, "999 ms"],
    [999.6, "1.0 s"],
    [9_940, "9.9 s"],
    [9_960, "10 s"],
    [65_000, "1 min 05 s"],
    [9_660_000, "2 h 41 min"],
    [20 * 86_400_000, "20 d 00 h"],
    [30 * 31_557_600_000, "30.0 years"],
  ])("formats %d ms as %s", (ms, text) => expect(duration(ms)).toBe(text));

  it("stops the countdown at zero", () => {
    expect(countdown(9_667_900)).toBe("2:41:07");
    expect(countdown(61_000)).toBe("01:01");
    expect(countdown(-1)).toBe("00:00");
  });

  it("keeps one item singular", () => {
    expect(plural(1, "line")).toBe("1 line");
    expect(plural(1204, "line")).toBe("1,204 lines");
  });

  it.each([
    [0, "0 bytes"],
    [1, "1 byte"],
    [1_023, "1,023 bytes"],
    [1_024, "1.0 KiB"],
    [1_048_575, "1.0 MiB"],
    [16.2 * 1_048_576, "16.2 MiB"],
    [5 * 1_073_741_824, "5.0 GiB"],
  ])("formats %d bytes as %s", (size, text) => expect(bytes(size)).toBe(text));

  it("shows no sign before zero", () => {
    expect(fixed(-0.0001, 3)).toBe("0.000");
    expect(fixed(-0.0006, 3)).toBe("-0.001");
    expect(fixed(0.5, 2)).toBe("0.50");
  });

  it("shows microseconds as milliseconds", () => {
    expect(milliseconds(3)).toBe("0.00");
    expect(milliseconds(2412)).toBe("2.41");
    expect(milliseconds(250_000)).toBe("250");
  });
});
