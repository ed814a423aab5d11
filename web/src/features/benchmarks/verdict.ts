import { base } from "./figures";
import { Ratio } from "./ratio";
import { GUIDES, type Guide, type Threshold } from "./record.gen";
import type { Run } from "./runs";

/** The step of the interpretation guide that `value`, in the guide's unit, is on. */
export function judge(subject: string, value: number): Threshold | undefined {
  return GUIDES.find((guide) => guide.subject === subject)?.thresholds.findLast(
    ({ from }) => from === null || value >= from,
  );
}

/** A figure that the guide judges. */
export interface Judged {
  readonly guide: Guide;
  readonly value: number;
  readonly step: Threshold;
  /** Where the value is how much more it is inside than outside. */
  readonly ratio: Ratio | null;
}

/** What the guide says of an enclave beside the same commit outside of one. */
export function judgements(outside: Run | undefined, inside: Run): readonly Judged[] {
  return GUIDES.flatMap((guide) => {
    const within = figureWith(inside, guide.subject);
    if (within === undefined) return [];
    // The guide judges a cold start by itself, and the others by how much more they are.
    const alone = guide.unit === "s";
    const without = outside && figureWith(outside, guide.subject);
    const ratio = alone || !without ? null : Ratio.of(without, within);
    const value = alone ? within.value / 1_000 : ratio?.percent;
    const step = value === undefined ? undefined : judge(guide.subject, value);
    return step && value !== undefined ? [{ guide, value, step, ratio }] : [];
  });
}

/** The mean of a subject, or its only value, in base units. */
export function figureWith(
  run: Run,
  subject: string,
  fits: (figure: Run["figures"][number]) => boolean = () => true,
) {
  for (const figure of run.figures) {
    if (figure.subject !== subject || !fits(figure)) continue;
    const value = base(figure, "mean") ?? base(figure, "value") ?? base(figure, "p50");
    if (value !== undefined) return { run, figure, value };
  }
  return undefined;
}

/** Enclave runs, never simulated ones, which the guide says nothing about; each with the run of the same commit and source outside of an enclave. */
export function pairsOf(runs: readonly Run[]): readonly { outside: Run | undefined; inside: Run }[] {
  return runs
    .filter(({ record }) => record.environment === "enclave")
    .map((inside) => ({
      inside,
      outside: runs.find(
        ({ record, from, key }) =>
          record.environment === "bare_metal" &&
          from === inside.from &&
          record.commit === inside.record.commit &&
          (record.title ?? key).split(",")[0] === (inside.record.title ?? inside.key).split(",")[0],
      ),
    }));
}
