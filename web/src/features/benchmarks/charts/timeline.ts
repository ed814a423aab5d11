/** A stage in a bar, in the chart's scale. */
export interface Span {
  readonly index: number;
  readonly start: number;
  readonly end: number;
  /** Lane from the top; stages in one lane do not overlap. */
  readonly lane: number;
}

export interface Timeline {
  readonly spans: readonly Span[];
  readonly lanes: number;
  readonly end: number;
  /** Time that no stage covers; 0 if stages overlap. */
  readonly rest: number;
}

/** Rounding of stages and totals in the reports, relative to the total. */
const ROUNDING = 1e-3;

/**
 * Places stages one after the other if they add up to at most `total`, or if no total is known. Otherwise some ran at the same time:
 * a stage that would leave the total begins earlier, so that it ends there, in another lane.
 */
export function timelineOf(parts: readonly number[], total: number): Timeline {
  const sum = parts.reduce((all, part) => all + part, 0);
  const fits = total === 0 || sum <= total * (1 + ROUNDING);
  const end = fits ? Math.max(total, sum) : Math.max(total, ...parts);
  const spans: Span[] = [];
  const free: number[] = [];
  let before = 0;
  for (const [index, part] of parts.entries()) {
    if (part <= 0) continue;
    const start = Math.max(0, Math.min(before, end - part));
    const stop = start + part;
    const found = free.findIndex((at) => at <= start);
    const lane = found < 0 ? free.length : found;
    free[lane] = stop;
    spans.push({ index, start, end: stop, lane });
    before = stop;
  }
  return { spans, lanes: Math.max(1, free.length), end, rest: fits ? end - sum : 0 };
}
