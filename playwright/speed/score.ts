/** Metrics of one page load: milliseconds, and the layout shift as a share of the window. */
export interface Load {
  /** First contentful paint. */
  readonly fcp: number;
  /** Largest contentful paint. */
  readonly lcp: number;
  /** Total blocking time. */
  readonly tbt: number;
  /** Cumulative layout shift. */
  readonly cls: number;
}

/** Values at which a metric scores 0.9 and 0.5 on a log-normal curve. */
type Curve = readonly [ninety: number, median: number];
type Curves = Readonly<Record<keyof Load, Curve>>;

/** Lighthouse's curves, for phones and for desktops (github.com/GoogleChrome/lighthouse, docs/scoring.md and its audits). */
export const CURVES = {
  phone: { fcp: [1_800, 3_000], lcp: [2_500, 4_000], tbt: [200, 600], cls: [0.1, 0.25] },
  desktop: { fcp: [934, 1_600], lcp: [1_200, 2_400], tbt: [150, 350], cls: [0.1, 0.25] },
} as const satisfies Record<string, Curves>;

/** Lighthouse 10's weights, without the speed index, which needs a video of the load. */
const WEIGHTS: Readonly<Record<keyof Load, number>> = { fcp: 10, lcp: 25, tbt: 30, cls: 25 };
const METRICS = ["fcp", "lcp", "tbt", "cls"] as const satisfies (keyof Load)[];

/** The weighted mean of the metrics' scores, 0 to 100. */
export function scoreOf(load: Load, curves: Curves): number {
  const total = METRICS.reduce((sum, metric) => sum + WEIGHTS[metric], 0);
  const sum = METRICS.reduce(
    (sum, metric) => sum + WEIGHTS[metric] * onCurve(load[metric], curves[metric]),
    0,
  );
  return (100 * sum) / total;
}

/** The complement of the log-normal distribution that has 0.5 at the median and leaves 0.9 at the other point. */
export function onCurve(value: number, [ninety, median]: Curve): number {
  if (value <= 0) return 1;
  const spread = Math.log(median / ninety) / QUANTILE_90;
  return (1 - erf(Math.log(value / median) / (spread * Math.SQRT2))) / 2;
}

/** 0.9 quantile of the standard normal distribution. */
const QUANTILE_90 = 1.2815515655446004;

/** Abramowitz and Stegun 7.1.26; the error is at most 1.5e-7. */
function erf(x: number): number {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429];
  const tail = series.reduceRight((sum, factor) => (sum + factor) * t, 0) * Math.exp(-x * x);
  return Math.sign(x) * (1 - tail);
}
