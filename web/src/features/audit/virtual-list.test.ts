import { describe, expect, it } from "vitest";
import { visibleRange } from "./VirtualList";

describe("the rows of a long list", () => {
  it("are the visible ones and the overscan", () => {
    expect(visibleRange(0, 1_000)).toEqual([0, 15]);
    expect(visibleRange(44 * 100.5, 1_000)).toEqual([94, 116]);
    expect(visibleRange(44 * 991, 1_000)).toEqual([985, 1_000]);
  });

  it("are rendered when the list becomes shorter than the scroll offset", () => {
    expect(visibleRange(44 * 991, 20)).toEqual([5, 20]);
    expect(visibleRange(44 * 991, 3)).toEqual([0, 3]);
    expect(visibleRange(44 * 991, 0)).toEqual([0, 0]);
  });
});
