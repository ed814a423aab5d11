import type { XAxisTickContentProps, YAxisTickContentProps } from "recharts";
import { short } from "../figures";
import { textWidth } from "./text";

/** Colours of the axes. */
export const LINE = { stroke: "var(--line)" };
export const GRID = "var(--hairline)";
const INK = "var(--ink-muted)";
/** Font size of the axes in pixels. */
const SIZE = 12;
export const LEADING = 14;

/** A numeric axis: range and labelled values. */
export interface Axis {
  readonly domain: [number, number];
  readonly ticks: readonly number[];
}

/** From zero to a round number above the largest of `values`; logarithmic: whole decades around the positive values. */
export function axisOf(values: readonly number[], log = false): Axis {
  const domain = domainOf(values, log);
  return { domain, ticks: ticksOf(domain, log) };
}

function domainOf(values: readonly number[], log: boolean): [number, number] {
  const largest = Math.max(...values);
  if (!log) return [Math.min(0, roundUp(Math.min(...values))), roundUp(largest)];
  const smallest = Math.min(...values.filter((value) => value > 0));
  return [10 ** Math.floor(Math.log10(smallest)), 10 ** Math.ceil(Math.log10(largest))];
}

/** Round numbers: at most six, or one per decade. */
function ticksOf([from, to]: [number, number], log: boolean): number[] {
  if (log) {
    const decades = Math.round(Math.log10(to / from));
    const step = Math.max(1, Math.ceil(decades / 6));
    return Array.from({ length: Math.floor(decades / step) + 1 }, (_, index) => from * 10 ** (index * step));
  }
  const step = roundUp((to - from) / 5);
  const ticks: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to * 1.0001; at += step) ticks.push(at);
  return ticks;
}

/** The ticks whose labels fit next to each other in `width` pixels, always including the last one. */
export function withRoom({ domain: [from, to], ticks }: Axis, width: number, log = false): number[] {
  const share = (tick: number) =>
    log ? Math.log(tick / from) / Math.log(to / from) : (tick - from) / (to - from);
  let free = Number.POSITIVE_INFINITY;
  return ticks
    .toReversed()
    .filter((one) => {
      const [at, half] = [share(one) * width, (textWidth(tick(one)) + 8) / 2];
      if (at + half > free) return false;
      free = at - half;
      return true;
    })
    .toReversed();
}

export function tick(value: number): string {
  return short(Math.abs(value) < 1e-12 ? 0 : Number(value.toPrecision(6)));
}

/*
 * Custom labels, because Recharts measures its own in the document, which lays out the whole page for every word.
 */

/** A number below an axis. */
export function NumberBelow({ x, y, payload }: XAxisTickContentProps) {
  return (
    <text x={x} y={y} dy="0.71em" fill={INK} fontSize={SIZE} textAnchor="middle">
      {tick(Number(payload.value))}
    </text>
  );
}

/** A number left of an axis. */
export function NumberLeft({ x, y, payload }: YAxisTickContentProps) {
  return (
    <text x={x} y={y} dy="0.355em" fill={INK} fontSize={SIZE} textAnchor="end">
      {tick(Number(payload.value))}
    </text>
  );
}

interface WordsProps {
  readonly heading?: readonly string[];
  readonly words?: readonly string[];
}

/** Lines of text left of an axis, those of the heading first. */
export function WordsLeft({ x, y, heading = [], words = [] }: YAxisTickContentProps & WordsProps) {
  const all = [...heading, ...words];
  return (
    <text y={y} fill={INK} fontSize={SIZE} textAnchor="end">
      {all.map((line, index) => (
        <tspan
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other identity
          key={index}
          x={x}
          {...(index < heading.length && { fill: "var(--ink)", fontWeight: 600 })}
          dy={index === 0 ? SIZE * 0.355 - ((all.length - 1) * LEADING) / 2 : LEADING}
        >
          {line}
        </tspan>
      ))}
    </text>
  );
}

/** 1, 2, 2.5 or 5 times a power of ten, away from zero. */
function roundUp(value: number): number {
  if (value === 0 || !Number.isFinite(value)) return value === 0 ? 0 : 1;
  const power = 10 ** Math.floor(Math.log10(Math.abs(value)));
  const digit = Math.abs(value) / power;
  const round = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((one) => digit <= one * 1.0001) ?? 10;
  return Math.sign(value) * round * power;
}
