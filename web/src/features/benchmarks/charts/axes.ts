import { short } from "../figures";
import type { Drawing } from "./ChartFrame";

/** Text of axes; the style sheet has the rest. */
export const TICK = { fill: "var(--ink-muted)", fontSize: 12 };
export const LINE = { stroke: "var(--line)" };
export const GRID = "var(--hairline)";

/** Zero to a round number above the largest, or whole decades around all positive values. */
export function domainOf({ plot, scale, log }: Drawing): [number, number] {
  const values = plot.points.flatMap(({ value, high, low }) => [value, high ?? value, low ?? value]);
  const largest = Math.max(...values) / scale.factor;
  if (!log) return [Math.min(0, roundUp(Math.min(...values) / scale.factor)), roundUp(largest)];
  const smallest = Math.min(...values.filter((value) => value > 0)) / scale.factor;
  return [10 ** Math.floor(Math.log10(smallest)), 10 ** Math.ceil(Math.log10(largest))];
}

/** Ticks that are round numbers: at most six, or one a decade. */
export function ticksOf(drawing: Drawing): number[] {
  const [from, to] = domainOf(drawing);
  if (drawing.log) {
    const decades = Math.round(Math.log10(to / from));
    const step = Math.max(1, Math.ceil(decades / 6));
    return Array.from({ length: Math.floor(decades / step) + 1 }, (_, index) => from * 10 ** (index * step));
  }
  const step = roundUp((to - from) / 5);
  const ticks: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to * 1.0001; at += step) ticks.push(at);
  return ticks;
}

export function tick(value: number): string {
  return short(Math.abs(value) < 1e-12 ? 0 : Number(value.toPrecision(6)));
}

/** 1, 2, 2.5 or 5 times a power of ten, away from zero. */
function roundUp(value: number): number {
  if (value === 0 || !Number.isFinite(value)) return value === 0 ? 0 : 1;
  const power = 10 ** Math.floor(Math.log10(Math.abs(value)));
  const digit = Math.abs(value) / power;
  const round = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((one) => digit <= one * 1.0001) ?? 10;
  return Math.sign(value) * round * power;
}
