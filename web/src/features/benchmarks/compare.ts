import { dimensionOf, headline, subjectOf } from "./figures";
import { type Likeness, likeness } from "./likeness";
import { commonStatistic, Ratio } from "./ratio";
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
  /** How much more `b` is than `a`; null where the two are not alike, with the reason in `like`. */
  readonly ratio: Ratio | null;
  readonly like: Likeness;
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
  "platform",
  "mode",
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
    const common = commonStatistic(figure, other);
    if (!common || common.from === 0) return [];
    const [left, right] = [
      { run: a, figure },
      { run: b, figure: other },
    ];
    const [like, ratio] = [likeness(right, left), Ratio.of(left, right)];
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

/** In per cent; what differs by less is the same number, written down twice. */
const LEAST = 0.005;

function verdict({ subject }: Measurement, ratio: Ratio | null, like: Likeness): Difference["verdict"] {
  if (!ratio) return like.reason === null ? "another machine" : "not comparable";
  const { percent, noise } = ratio;
  if (Math.abs(percent) < LEAST) return "the same";
  if (noise === null) return "no spread stated";
  if (Math.abs(percent) <= noise) return "within noise";
  const { better } = subjectOf(subject);
  if (better === "neither") return "differs";
  return (better === "lower") === percent < 0 ? "better" : "worse";
}
