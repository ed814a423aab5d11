import { asPublished, base, headline, type Scale, type Statistic, scaleFor, short } from "../figures";
import type { Dimension, Measurement } from "../record.gen";
import type { Run } from "../runs";
import { type Look, lookOf, type Steps } from "./look";

/** One number of a chart. */
export interface Point {
  readonly run: Run;
  readonly category: string;
  /** Heading of a group of categories. */
  readonly heading?: string;
  /** Position on a numeric axis, for lines. */
  readonly x?: number;
  /** Base units of the plot's dimension. */
  readonly value: number;
  /** As the source states it. */
  readonly published: string;
  readonly note?: string;
}

/** Data of a chart, its table and its files. */
export interface Plot {
  readonly title: string;
  readonly dimension: Dimension;
  readonly points: readonly Point[];
  /** Name of the categories: `Percentile`, `Tokens`. */
  readonly axis: string;
}

export interface Series {
  readonly run: Run;
  readonly look: Look;
}

/** Runs that have a point, in order of appearance, with their look. */
export function seriesOf(plot: Plot, all: readonly Run[], steps: Steps): readonly Series[] {
  const present = new Set(plot.points.map(({ run }) => run.key));
  return all.filter(({ key }) => present.has(key)).map((run) => ({ run, look: lookOf(run, steps) }));
}

/** Categories in order of appearance. */
export function categoriesOf(plot: Plot): readonly string[] {
  return [...new Set(plot.points.map(({ category }) => category))];
}

/** Returns the heading of each category. */
export function headingsOf(plot: Plot): (category: string) => string {
  const headings = new Map(plot.points.map(({ category, heading = "" }) => [category, heading]));
  return (category) => headings.get(category) ?? "";
}

export function scaleOf(plot: Plot): Scale {
  return scaleFor(
    plot.dimension,
    plot.points.map(({ value }) => value),
  );
}

/** All values that the axis must cover, in the chart's scale. */
export function valuesOf({ plot, scale }: { readonly plot: Plot; readonly scale: Scale }): readonly number[] {
  return plot.points.map(({ value }) => value / scale.factor);
}

export function pointOf(plot: Plot, run: Run, category: string): Point | undefined {
  return plot.points.find((point) => point.run.key === run.key && point.category === category);
}

/** A figure as a point; empty if it has no number. */
export function point(
  run: Run,
  figure: Measurement,
  category: string,
  options: { x?: number; statistic?: Statistic; heading?: string | undefined } = {},
): Point[] {
  const value = options.statistic ? base(figure, options.statistic) : headline(figure);
  if (value === undefined) return [];
  return [
    {
      run,
      category,
      value,
      published: options.statistic
        ? `${short(figure.statistics?.[options.statistic] ?? value)} ${figure.unit}`
        : asPublished(figure),
      ...(options.x !== undefined && { x: options.x }),
      ...(options.heading !== undefined && { heading: options.heading }),
      ...(figure.note !== undefined && { note: figure.note }),
    },
  ];
}
