import { describe, expect, it } from "vitest";
import { quantiles } from "../../../../benchmarks/tests/student.json";
import { Ratio, student } from "./ratio";
import type { Measurement } from "./record.gen";
import type { Run } from "./runs";

const run = { key: "a", title: "a", kind: "ours", from: "a", peer: false, words: "", figures: [] } as const;
const record = { environment: "simulated", machine: { cpu: "EPYC" } } as const;

function noise(a: Partial<Measurement>, b: Partial<Measurement>): number | null | undefined {
  const [from, to] = [a, b].map((figure) => ({
    run: { ...run, record } as Run,
    figure: { subject: "peers.latency", unit: "ms", ...figure } as Measurement,
  }));
  return from && to && Ratio.of(from, to)?.noise;
}

describe("the noise of a ratio", () => {
  it.each(quantiles)("uses Student's t for a sample of $count", ({ count, quantile }) => {
    expect(student(count)).toBe(quantile);
  });

  it("is wide for two pairs", () => {
    const turns = (sample: number[]) => ({ statistics: { mean: 1 }, turns: { id: "t", sample } });
    // Differences of 10 % and 20 %.
    expect(noise(turns([1, 1]), turns([1.1, 1.2]))).toBeCloseTo((12.706 * Math.sqrt(50)) / Math.SQRT2);
  });

  it("is wide for means of three samples", () => {
    const stated = { statistics: { mean: 10, stddev: 1, samples: 3 } };
    expect(noise(stated, stated)).toBeCloseTo(Math.SQRT2 * ((4.303 * 1) / Math.sqrt(3) / 10) * 100);
  });
});
