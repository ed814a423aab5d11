import { describe, expect, it } from "vitest";
import { ownTrend, privacyCost, publishedTrend } from "./privacy";
import type { BenchmarkRecord, Measurement } from "./record.gen";
import { type Run, sourceOf } from "./runs";

const files = import.meta.glob<string>("../../../../benchmarks/{reference,results}/*.json", {
  query: "?raw",
  import: "default",
  eager: true,
});
const all = Object.entries(files).flatMap(([path, text]) => {
  const { records, ...file } = JSON.parse(text);
  const kind = path.includes("/results/") ? "ours" : "published";
  const name = path.slice(path.lastIndexOf("/") + 1);
  return sourceOf(name, kind, { status: "read", file, records, notices: [] }).runs;
});

/** Overhead that a record of ours states for the sealed path, in per cent. */
function overhead(percent: number, tokens = 128): Measurement {
  const parameters = { of: "sealed request over bare engine", path: "sealed", tokens };
  return { subject: "overhead", unit: "percent", parameters, statistics: { mean: percent } };
}

function own(key: string, percent: number, record: Partial<BenchmarkRecord> = {}): Run {
  const figures = [overhead(percent), overhead(percent * 5, 9)];
  const whole = { environment: "simulated", machine: { cpu: "EPYC" }, ...record } as const;
  return { key, title: key, kind: "ours", from: key, record: whole, figures, peer: false, words: key };
}

describe("the cost of privacy", () => {
  it("on Nitro is what the published reports measured inside against outside, newest first", () => {
    const { published } = privacyCost(all);
    expect(published.map(({ inside }) => inside.record.id)).toEqual(["b00bab1-enclave", "3e7b676-enclave"]);
    for (const { inside, ratio } of published) {
      const stated = inside.figures.find(
        ({ subject, parameters }) =>
          subject === "overhead" && parameters?.of === "inference.latency" && parameters.statistic === "mean",
      );
      expect(ratio.percent).toBeCloseTo(stated?.statistics?.value ?? Number.NaN, 1);
    }
  });

  it("of ours is what our records state for the sealed path, and none ran in an enclave", () => {
    const { simulated, enclave } = privacyCost(all);
    expect(simulated.length).toBeGreaterThan(0);
    expect(enclave).toEqual([]);
    for (const { run, percent, shortest } of simulated) {
      expect(run.figures.some(({ statistics }) => statistics?.mean === percent)).toBe(true);
      expect(shortest?.tokens).toBe(9);
    }
    const days = simulated.map(({ run }) => Number.parseInt(run.record.timestamp ?? "", 10));
    expect(days).toEqual(days.toSorted((a, b) => b - a));
  });

  it("changes if a run of ours took place in an enclave", () => {
    const { enclave } = privacyCost([own("nitro", 12, { environment: "enclave" })]);
    expect(enclave).toMatchObject([{ percent: 12, shortest: { tokens: 9, percent: 60 } }]);
  });

  it("does not depend on opened files", () => {
    expect(privacyCost([{ ...own("mine", 1), kind: "dropped" }]).simulated).toEqual([]);
  });
});

describe("a trend", () => {
  it("has the published runs in time order, and a report's runs in place of their mean", () => {
    const steps = publishedTrend(all);
    expect(steps.map(({ when }) => when)).toEqual([
      "2026-02",
      "2026-02-04 21:53",
      "2026-02-04 22:24",
      "2026-02-04 22:28",
    ]);
    expect(steps[0]?.change).toBeNull();
    for (const [index, { cost, change }] of steps.entries()) {
      const before = steps[index - 1];
      if (before) expect(change).toBeCloseTo(cost.ratio.percent - before.cost.ratio.percent);
    }
  });

  it("states a change only between runs of one machine", () => {
    const runs = [
      own("a", 10, { timestamp: "2026-01-01" }),
      own("b", 30, { timestamp: "2026-01-02", machine: { cpu: "Xeon" } }),
      own("c", 12, { timestamp: "2026-01-03" }),
      own("d", 13, { timestamp: "2026-01-04", machine: { cpu: "EPYC", vcpus: 8 } }),
    ];
    expect(ownTrend(privacyCost(runs)).map(({ change }) => change)).toEqual([null, null, 2, null]);
  });
});
