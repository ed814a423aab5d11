import { base, dimensionOf, headline, type Statistic, subjectOf } from "./figures";
import type { Measurement } from "./record.gen";
import type { Run } from "./runs";

/** One figure that both runs have. */
export interface Difference {
  readonly key: string;
  readonly a: Measurement;
  readonly b: Measurement;
  /** Base units. */
  readonly from: number;
  readonly to: number;
  /** How much more `b` is than `a`, in per cent. */
  readonly percent: number;
  /** Half the 95 % interval of `percent`; null where a run states no spread. */
  readonly noise: number | null;
  readonly verdict: "better" | "worse" | "within noise" | "no spread stated" | "the same" | "differs";
}

/** Parameters that say what was done. Others say how it was labelled, and two runs need not agree on them. */
const IDENTITY = [
  "tokens",
  "payload_bytes",
  "clients",
  "path",
  "devices",
  "records_per_device",
  "workload",
  "operation",
  "of",
  "statistic",
  "requests",
  "certificates",
  "kind",
  "batch",
  "threads",
  "process",
] as const;
/** A figure that a report states a second time, rounded. */
const REPEATED = ["stated", "rounded", "assumed", "study"] as const;

/** Figures with the same subject and the same conditions, in the order of `a`. */
export function differences(a: Run, b: Run): readonly Difference[] {
  const theirs = indexed(b);
  const ours = indexed(a);
  return [...ours].flatMap(([key, figure]) => {
    // Each length is a figure of its own already.
    if (figure.subject === "scaling.latency" && ours.has(key.replace("scaling.", "inference."))) return [];
    const other = theirs.get(key);
    if (!other || dimensionOf(figure) !== dimensionOf(other)) return [];
    const pair = commonStatistic(figure, other);
    if (!pair || pair.from === 0) return [];
    const percent = (pair.to / pair.from - 1) * 100;
    const noise = combined(figure, other, pair);
    return [{ key, a: figure, b: other, ...pair, percent, noise, verdict: verdict(figure, percent, noise) }];
  });
}

function indexed(run: Run): Map<string, Measurement> {
  const figures = new Map<string, Measurement>();
  for (const figure of run.figures) {
    if (headline(figure) === undefined || REPEATED.some((name) => figure.parameters?.[name] !== undefined))
      continue;
    const key = [figure.subject, ...IDENTITY.map((name) => figure.parameters?.[name] ?? "")].join("|");
    if (!figures.has(key)) figures.set(key, figure);
  }
  return figures;
}

function commonStatistic(a: Measurement, b: Measurement): { from: number; to: number } | null {
  for (const statistic of [
    "mean",
    "p50",
    "value",
    "p95",
    "p99",
    "min",
    "max",
  ] as const satisfies Statistic[]) {
    const [from, to] = [base(a, statistic), base(b, statistic)];
    if (from !== undefined && to !== undefined) return { from, to };
  }
  const [from, to] = [headline(a), headline(b)];
  return from === undefined || to === undefined ? null : { from, to };
}

/** Half-widths of both relative intervals, added in quadrature. */
function combined(a: Measurement, b: Measurement, { from, to }: { from: number; to: number }): number | null {
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
    return (1.96 * stddev) / Math.sqrt(samples) / mean;
  return null;
}

/** In per cent; what differs by less is the same number, written down twice. */
const LEAST = 0.005;

function verdict({ subject }: Measurement, percent: number, noise: number | null): Difference["verdict"] {
  if (Math.abs(percent) < LEAST) return "the same";
  if (noise === null) return "no spread stated";
  if (Math.abs(percent) <= noise) return "within noise";
  const { better } = subjectOf(subject);
  if (better === "neither") return "differs";
  return (better === "lower") === percent < 0 ? "better" : "worse";
}
