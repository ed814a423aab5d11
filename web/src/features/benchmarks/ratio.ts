import { comparabilityOf, type Figure } from "./comparability";
import { base, type Statistic } from "./figures";
import { type Measurement, STUDENT } from "./record.gen";

/** Statistics to compare, in order of preference. */
const STATISTICS = ["mean", "p50", "value", "p95", "p99", "min", "max"] as const satisfies Statistic[];

/** One statistic that both figures state, in base units. */
export interface Common {
  readonly statistic: Statistic;
  readonly from: number;
  readonly to: number;
}

/** The first statistic that both state; different statistics are never compared. */
export function commonStatistic(from: Measurement, to: Measurement): Common | null {
  for (const statistic of STATISTICS) {
    const [a, b] = [base(from, statistic), base(to, statistic)];
    if (a !== undefined && b !== undefined) return { statistic, from: a, to: b };
  }
  return null;
}

/** One figure divided by another. Only {@link Ratio.of} constructs one, and only for comparable figures. */
export class Ratio {
  readonly from: Figure;
  readonly to: Figure;
  readonly common: Common;

  private constructor(from: Figure, to: Figure, common: Common) {
    this.from = from;
    this.to = to;
    this.common = common;
  }

  /** Null if the figures are not the same measurement on one machine, or share no statistic. */
  static of(from: Figure, to: Figure): Ratio | null {
    const common = commonStatistic(from.figure, to.figure);
    if (!common || common.from === 0 || !comparabilityOf(from, to).ratio) return null;
    return new Ratio(from, to, common);
  }

  /** Relative difference of `to` to `from`, in per cent. */
  get percent(): number {
    return (this.common.to / this.common.from - 1) * 100;
  }

  /** Half the 95 % interval of `percent`; null if no spread is stated. Turns cancel disturbances of both. */
  get noise(): number | null {
    if (this.common.statistic !== "mean") return null;
    return (
      pairedNoise(this.from.figure, this.to.figure) ??
      statedNoise(this.from.figure, this.to.figure, this.common)
    );
  }
}

/** Noise from the relative differences of each turn. */
function pairedNoise({ turns: a }: Measurement, { turns: b }: Measurement): number | null {
  if (!a || !b || a.id !== b.id || a.sample.length !== b.sample.length) return null;
  const differences = a.sample.flatMap((from, turn) => {
    const to = b.sample[turn];
    return from > 0 && to !== undefined ? [(to / from - 1) * 100] : [];
  });
  const count = differences.length;
  if (count < 2) return null;
  const mean = differences.reduce((sum, one) => sum + one, 0) / count;
  const variance = differences.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (count - 1);
  return (student(count) * Math.sqrt(variance)) / Math.sqrt(count);
}

/** Noise from the intervals of both means, added in quadrature. */
function statedNoise(a: Measurement, b: Measurement, { from, to }: Common): number | null {
  const [left, right] = [halfWidth(a), halfWidth(b)];
  if (left === null || right === null) return null;
  return Math.hypot(left, right) * (to / from) * 100;
}

/** Half the 95 % interval of the mean, as a share of the mean. */
function halfWidth({ statistics = {} }: Measurement): number | null {
  const { mean, ci95, stddev, samples } = statistics;
  if (!mean) return null;
  if (ci95) return (ci95[1] - ci95[0]) / 2 / mean;
  if (stddev !== undefined && samples !== undefined && samples > 1)
    return (student(samples) * stddev) / Math.sqrt(samples) / mean;
  return null;
}

/** Two-sided 95 % quantile of Student's t for a sample of `count`. */
export function student(count: number): number {
  return STUDENT[Math.max(0, count - 2)] ?? 1.96;
}
