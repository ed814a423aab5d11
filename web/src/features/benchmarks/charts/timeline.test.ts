import { describe, expect, it } from "vitest";
import { timelineOf } from "./timeline";

describe("the stages of a cold start", () => {
  it("are stacked if they add up to the total, and the rest is shown", () => {
    const { spans, lanes, end, rest } = timelineOf([10, 0, 30], 45);
    expect(spans.map(({ start, end }) => [start, end])).toEqual([
      [0, 10],
      [10, 40],
    ]);
    expect([lanes, end, rest]).toEqual([1, 45, 5]);
  });

  it("overlap if they are longer than the total, where the timeline ends", () => {
    const parts = [2, 1, 5.7, 249.6, 43.7, 258, 40.6];
    const { spans, lanes, end, rest } = timelineOf(parts, 394);
    expect([end, rest]).toEqual([394, 0]);
    expect(lanes).toBeGreaterThan(1);
    expect(Math.max(...spans.map(({ end }) => end))).toBeCloseTo(394);
    for (const { index, start, end } of spans) expect(end - start).toBeCloseTo(parts[index] ?? 0);
    for (const one of spans)
      for (const other of spans)
        if (one.index < other.index && one.lane === other.lane)
          expect(other.start, "no overlap within a lane").toBeGreaterThanOrEqual(one.end - 1e-9);
  });

  it("may exceed the total by its rounding", () => {
    expect(timelineOf([100.02, 100.02], 200).lanes).toBe(1);
  });

  it("are stacked without a total", () => {
    expect(timelineOf([1, 2], 0)).toMatchObject({ lanes: 1, end: 3, rest: 0 });
  });
});
