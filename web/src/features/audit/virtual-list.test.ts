import { describe, expect, it } from "vitest";
import { drawnAt } from "./VirtualList";

describe("the rows of a long list", () => {
  it("are those that can be seen, and some around them", () => {
    expect(drawnAt(0, 1_000)).toEqual([0, 15]);
    expect(drawnAt(44 * 100.5, 1_000)).toEqual([94, 116]);
    expect(drawnAt(44 * 991, 1_000)).toEqual([985, 1_000]);
  });

  it("are there when the list became shorter than what is scrolled past", () => {
    expect(drawnAt(44 * 991, 20)).toEqual([5, 20]);
    expect(drawnAt(44 * 991, 3)).toEqual([0, 3]);
    expect(drawnAt(44 * 991, 0)).toEqual([0, 0]);
  });
});
