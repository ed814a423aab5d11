import { type Comparability, comparabilityOf } from "./comparability";
import { dimensionOf, headline, subjectOf } from "./figures";
import { commonStatistic, Ratio } from "./ratio";
import type { Measurement } from "./record.gen";
import type { Run } from "./runs";

/** A figure of both runs. */
export interface Difference {
  readonly key: string;
  readonly a: Measurement;
  readonly b: Measurement;
  /** Base units. */
  readonly from: number;
  readonly to: number;
  /** Relative difference of `b` to `a`; null if the two are not comparable, for the reason in `like`. */
  readonly ratio: Ratio | null;
  readonly like: Comparability;
  readonly verdict:
    | "better"
    | "worse"
    | "within noise"
    | "no spread stated"
    | "the same"
    | "differs"
    | "another machine"
    | "not comparable";
}

/** Parameters that identify a measurement. Others are labels, which may differ between runs. */
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
  "platform",
  "mode",
] as const;
/** Parameters that mark a repeated, rounded statement of a figure. */
const REPEATED = ["stated", "rounded", "assumed", "study"] as const;

/** Figures with the same subject and conditions, in the order of `a`. */
export function differences(a: Run, b: Run): readonly Difference[] {
  const theirs = indexed(b);
  const ours = indexed(a);
  return [...ours].flatMap(([key, figure]) => {
    // Each length is already a separate figure.
    if (figure.subject === "scaling.latency" && ours.has(key.replace("scaling.", "inference."))) return [];
    const other = theirs.get(key);
    if (!other || dimensionOf(figure) !== dimensionOf(other)) return [];
    const common = commonStatistic(figure, other);
    if (!common || common.from === 0) return [];
    const [left, right] = [
      { run: a, figure },
      { run: b, figure: other },
    ];
    const [like, ratio] = [comparabilityOf(right, left), Ratio.of(left, right)];
    const { from, to } = common;
    return [{ key, a: figure, b: other, from, to, like, ratio, verdict: verdict(figure, ratio, like) }];
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

/** In per cent; a smaller difference comes from rounding. */
const MIN_DIFFERENCE = 0.005;

function verdict({ subject }: Measurement, ratio: Ratio | null, like: Comparability): Difference["verdict"] {
  if (!ratio) return like.reason === null ? "another machine" : "not comparable";
  const { percent, noise } = ratio;
  if (Math.abs(percent) < MIN_DIFFERENCE) return "the same";
  if (noise === null) return "no spread stated";
  if (Math.abs(percent) <= noise) return "within noise";
  const { better } = subjectOf(subject);
  if (better === "neither") return "differs";
  return (better === "lower") === percent < 0 ? "better" : "worse";
}
