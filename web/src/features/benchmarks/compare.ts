import { type Comparability, comparabilityOf, LABELS, precisionOf } from "./comparability";
import { dimensionOf, headline, subjectOf } from "./figures";
import { groupBy } from "./group";
import { commonStatistic, Ratio } from "./ratio";
import type { Measurement } from "./record.gen";
import type { Run } from "./runs";

/** A figure of both runs. */
export interface Difference {
  readonly key: string;
  readonly a: Measurement;
  readonly b: Measurement;
  /** Engines of both, if `a` measured several under these conditions. */
  readonly engines: readonly string[];
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

/** Parameters that mark a repeated, rounded statement of a figure. */
const REPEATED = ["stated", "rounded", "assumed", "study"] as const;

/** Figures with the same subject and conditions, in the order of `a`. */
export function differences(a: Run, b: Run): readonly Difference[] {
  const [ours, theirs] = [indexed(a), indexed(b)];
  return [...ours].flatMap(([identity, figures]) => {
    const found = pairs(figures, theirs.get(identity) ?? []);
    return figures.flatMap((figure): Difference[] => {
      // Each length is already a separate figure.
      if (figure.subject === "scaling.latency" && ours.has(identityOf(figure, "inference.latency")))
        return [];
      const other = found.get(figure);
      if (!other || dimensionOf(figure) !== dimensionOf(other)) return [];
      const common = commonStatistic(figure, other);
      if (!common || common.from === 0) return [];
      const [left, right] = [
        { run: a, figure },
        { run: b, figure: other },
      ];
      const [like, ratio] = [comparabilityOf(right, left), Ratio.of(left, right)];
      const { from, to } = common;
      const engines = [...new Set([engineOf(figure), engineOf(other)])].filter(Boolean);
      const shown = figures.length > 1 ? engines : [];
      const key = `${identity} ${engineOf(figure)}`;
      const judged = verdict(figure, ratio, like);
      return [{ key, a: figure, b: other, engines: shown, from, to, like, ratio, verdict: judged }];
    });
  });
}

/** A run's figures by their identity, each engine once. */
function indexed(run: Run): ReadonlyMap<string, readonly Measurement[]> {
  const stated = run.figures.filter(
    (figure) =>
      headline(figure) !== undefined && REPEATED.every((name) => figure.parameters?.[name] === undefined),
  );
  const once = new Map<string, Measurement>();
  for (const figure of stated) {
    const key = `${identityOf(figure)} ${engineOf(figure)}`;
    if (!once.has(key)) once.set(key, figure);
  }
  return groupBy([...once.values()], (figure) => identityOf(figure));
}

/** Subject, precision, and all conditions. */
function identityOf(figure: Measurement, subject = figure.subject): string {
  const conditions = Object.entries(figure.parameters ?? {})
    .filter(([name]) => !LABELS.has(name))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([subject, precisionOf(figure), conditions]);
}

function engineOf({ parameters }: Measurement): string {
  return String(parameters?.engine ?? "");
}

/** The engine without the instruction set that it is built for: `fused-f32-avx2` becomes `fused-f32`. */
function familyOf(figure: Measurement): string {
  return engineOf(figure).replace(/-(avx|neon|sse|scalar)\w*$/, "");
}

/** Pairs figures of one identity: first those of one engine, then those of one family, then the others in order. */
function pairs(
  ours: readonly Measurement[],
  theirs: readonly Measurement[],
): ReadonlyMap<Measurement, Measurement> {
  const found = new Map<Measurement, Measurement>();
  const used = new Set<Measurement>();
  for (const nameOf of [engineOf, familyOf, () => ""]) {
    const waiting = groupBy(
      theirs.filter((one) => !used.has(one)),
      nameOf,
    );
    const left = groupBy(
      ours.filter((one) => !found.has(one)),
      nameOf,
    );
    for (const [name, figures] of left) {
      for (const [index, figure] of figures.entries()) {
        const other = waiting.get(name)?.[index];
        if (!other) break;
        found.set(figure, other);
        used.add(other);
      }
    }
  }
  return found;
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
