import { base } from "./figures";
import { Ratio } from "./ratio";
import { GUIDES, type Guide, type Threshold } from "./record.gen";
import type { Run } from "./runs";

/** The step of the interpretation guide for `value`, in the guide's unit. */
export function gradeOf(subject: string, value: number): Threshold | undefined {
  return GUIDES.find((guide) => guide.subject === subject)?.thresholds.findLast(
    ({ from }) => from === null || value >= from,
  );
}

/** The guide's verdict on a figure. */
export interface GuideVerdict {
  readonly guide: Guide;
  readonly value: number;
  readonly step: Threshold;
  /** The ratio of inside to outside, if the value is derived from it. */
  readonly ratio: Ratio | null;
}

/** The guide's verdicts on an enclave, compared with the same commit outside. */
export function verdictsOf(outside: Run | undefined, inside: Run): readonly GuideVerdict[] {
  return GUIDES.flatMap((guide) => {
    const within = figureWith(inside, guide.subject);
    if (within === undefined) return [];
    // The guide grades a cold start by its duration, and other figures by their overhead.
    const alone = guide.unit === "s";
    const without = outside && figureWith(outside, guide.subject);
    const ratio = alone || !without ? null : Ratio.of(without, within);
    const value = alone ? within.value / 1_000 : ratio?.percent;
    const step = value === undefined ? undefined : gradeOf(guide.subject, value);
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

/** Enclave runs, each with the run of the same commit and source outside. The guide does not cover simulated ones. */
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
