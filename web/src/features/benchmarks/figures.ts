import { withDigits } from "../../ui/format";
import {
  type BenchmarkRecord,
  type Dimension,
  type Measurement,
  PUBLISHED,
  type Statistics,
  SUBJECTS,
  type Subject,
  UNITS,
  type Unit,
} from "./record.gen";

/** All figures of a record: its measurements, and sections of the published format converted to measurements. */
export function figuresOf(record: BenchmarkRecord): readonly Measurement[] {
  const published = PUBLISHED.flatMap(({ section, field, subject, unit, payload_bytes }): Measurement[] => {
    const found = (record[section] as Readonly<Record<string, unknown>> | undefined)?.[field];
    if (typeof found !== "number" && (typeof found !== "object" || found === null)) return [];
    const statistics: Statistics = typeof found === "number" ? { value: found } : found;
    const parameters = {
      ...(section === "vsock" && { transport: "vsock" }),
      ...(payload_bytes !== null && { payload_bytes }),
    };
    return [{ subject, unit, statistics, parameters }];
  });
  return [...published, ...(record.measurements ?? [])];
}

const byName = new Map(SUBJECTS.map((subject) => [subject.name, subject]));

/** The catalogue's entry for a subject; an unknown subject uses its name as title. */
export function subjectOf(name: string): Subject {
  return byName.get(name) ?? { name, title: name, dimension: "any", better: "neither" };
}

export type Statistic = "value" | "mean" | "p50" | "p95" | "p99" | "min" | "max";

/** A statistic in the base unit of its dimension: milliseconds, bytes, bytes per second. */
export function base(figure: Measurement, statistic: Statistic): number | undefined {
  const value = figure.statistics?.[statistic];
  return value === undefined || !figure.unit ? undefined : value * UNITS[figure.unit].factor;
}

/** The single number to show: value, mean, median, or the middle of a range. */
export function headline(figure: Measurement): number | undefined {
  for (const statistic of ["value", "mean", "p50"] as const) {
    const value = base(figure, statistic);
    if (value !== undefined) return value;
  }
  const [min, max] = [base(figure, "min"), base(figure, "max")];
  if (min !== undefined && max !== undefined) return (min + max) / 2;
  return base(figure, "p95") ?? max ?? min;
}

export function dimensionOf(figure: Measurement): Dimension {
  return figure.unit ? UNITS[figure.unit].dimension : "any";
}

/** A parameter as a number; undefined if it is absent or not a number. */
export function numeric(figure: Measurement, name: string): number | undefined {
  const value = figure.parameters?.[name];
  return typeof value === "number" ? value : undefined;
}

/** A display unit: `factor` base units, written `name`. */
export interface Scale {
  readonly name: string;
  readonly factor: number;
}

const SCALES: Readonly<Partial<Record<Dimension, readonly Scale[]>>> = {
  time: [
    { name: "ns", factor: 1e-6 },
    { name: "µs", factor: 1e-3 },
    { name: "ms", factor: 1 },
    { name: "s", factor: 1e3 },
  ],
  size: [
    { name: "B", factor: 1 },
    { name: "kB", factor: 1e3 },
    { name: "MB", factor: 1e6 },
    { name: "GB", factor: 1e9 },
  ],
  bandwidth: [
    { name: "kB/s", factor: 1e3 },
    { name: "MB/s", factor: 1e6 },
    { name: "GB/s", factor: 1e9 },
    { name: "TB/s", factor: 1e12 },
  ],
  rate: [{ name: "inferences/s", factor: 1 }],
  percent: [{ name: "%", factor: 1 }],
  ratio: [{ name: "×", factor: 1 }],
  money: [{ name: "USD", factor: 1 }],
};

const UNSCALED: Scale = { name: "", factor: 1 };

/** The scale that gives the largest of `values` (base units) a short number. */
export function scaleFor(dimension: Dimension, values: readonly number[]): Scale {
  const scales = SCALES[dimension] ?? [UNSCALED];
  const largest = Math.max(0, ...values.map(Math.abs));
  return scales.findLast(({ factor }) => largest >= factor) ?? scales[0] ?? UNSCALED;
}

/** `78.5`, `0.298`, `7,052`: three significant digits, or all digits before the point. */
export function short(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2);
  const digits = size >= 100 ? 0 : Math.min(6, 2 - Math.floor(Math.log10(size)));
  return withDigits(value, Math.max(0, digits));
}

/** Formats a value in base units with a suitable unit. */
export function withUnit(dimension: Dimension, value: number): string {
  const { name, factor } = scaleFor(dimension, [value]);
  if (dimension === "money") return `$${withDigits(value / factor, 4)}`;
  const number = short(value / factor);
  return name ? `${number} ${name}` : number;
}

/** Formats a figure's value in base units as {@link withUnit} does; a cosine has no unit. */
export function formatValue(figure: Measurement, value: number): string {
  if (figure.subject.startsWith("quality.")) return short(value);
  return withUnit(figure.unit ? dimensionOf(figure) : subjectOf(figure.subject).dimension, value);
}

/** As the source states it: `4.8 to 6.15 %`, `about 16 %`, `Near-native`. */
export function asPublished(figure: Measurement): string {
  const { statistics = {}, unit, said, qualifier } = figure;
  const number = (value: number) => withDigits(value, 12);
  const single = statistics.value ?? statistics.mean ?? statistics.p50;
  const text =
    single !== undefined
      ? number(single)
      : statistics.min !== undefined && statistics.max !== undefined
        ? `${number(statistics.min)} to ${number(statistics.max)}`
        : undefined;
  if (text === undefined) return said ?? "—";
  const words = { about: "about ", up_to: "up to ", more_than: "over ", less_than: "under " };
  const lead = words[qualifier as keyof typeof words] ?? "";
  const tail = qualifier === "estimated" ? " (estimated)" : "";
  return `${lead}${text}${unit ? unitTail(unit) : ""}${tail}`;
}

const UNIT_WORDS: Partial<Record<Unit, string>> = { us: "µs", percent: "%", ratio: "×" };

/** The unit after a number, with its space; empty for a count. */
export function unitTail(unit: Unit): string {
  return unit === "count" ? "" : ` ${UNIT_WORDS[unit] ?? unit}`;
}

/** `1 KiB`, `64 B`. */
export function bytesLabel(bytes: number): string {
  if (bytes >= 1024 * 1024) return `${short(bytes / 1024 / 1024)} MiB`;
  return bytes >= 1024 ? `${short(bytes / 1024)} KiB` : `${short(bytes)} B`;
}
