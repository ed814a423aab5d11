import { base, figuresOf, numeric } from "./figures";
import type { BenchmarkRecord, Measurement } from "./record.gen";

/** Padded length at which the reports state throughput and cost. */
const TOKENS = 128;

/** All figures of a record: stated and derived ones. */
export function everyFigureOf(record: BenchmarkRecord): readonly Measurement[] {
  const stated = figuresOf(record);
  return [...stated, ...derivedOf(stated)];
}

/** Figures that can be derived from others of the same record, and that it does not state. */
export function derivedOf(figures: readonly Measurement[]): readonly Measurement[] {
  return [...efficiencies(figures), ...hourly(figures)];
}

/** Throughput of n clients divided by n times that of one client, with otherwise equal parameters. */
function efficiencies(figures: readonly Measurement[]): readonly Measurement[] {
  const stated = new Set(of(figures, "concurrency.efficiency").map((figure) => conditions(figure)));
  const throughputs = of(figures, "concurrency.throughput");
  const single = new Map(
    throughputs
      .filter((figure) => numeric(figure, "clients") === 1)
      .map((figure) => [conditions(figure, ["clients"]), rateOf(figure)]),
  );
  return throughputs.flatMap((figure) => {
    const clients = numeric(figure, "clients");
    const [rate, alone] = [rateOf(figure), single.get(conditions(figure, ["clients"]))];
    if (!clients || rate === undefined || !alone || stated.has(conditions(figure))) return [];
    return derived(
      "concurrency.efficiency",
      "percent",
      (rate / (clients * alone)) * 100,
      "its throughput, divided by that of one client times the number of clients",
      figure,
    );
  });
}

function hourly(figures: readonly Measurement[]): readonly Measurement[] {
  if (of(figures, "cost.inferences_per_hour").length > 0) return [];
  return of(figures, "inference.throughput").flatMap((figure) => {
    const rate = rateOf(figure);
    if (rate === undefined || (numeric(figure, "tokens") ?? TOKENS) !== TOKENS) return [];
    return derived("cost.inferences_per_hour", "count", rate * 3_600, "its inferences per second", figure);
  });
}

/** Cost of a million inferences at `price` dollars per hour; empty if the record states the cost. */
export function costAt(price: number, figures: readonly Measurement[]): readonly Measurement[] {
  if (of(figures, "cost.per_million").length > 0) return [];
  return of(figures, "cost.inferences_per_hour").flatMap((figure) => {
    const hour = base(figure, "value");
    if (!hour) return [];
    const cost = (price / hour) * 1_000_000;
    return derived("cost.per_million", "USD", cost, `$${price} per hour, as entered here`, figure);
  });
}

/** Dollars per hour; null for an invalid price. */
export function priceOf(typed: string): number | null {
  const text = typed.trim().replace(/^\$/, "");
  const value = /^\d{1,6}(\.\d{1,6})?$/.test(text) ? Number(text) : 0;
  return value > 0 ? value : null;
}

function of(figures: readonly Measurement[], subject: string): readonly Measurement[] {
  return figures.filter((figure) => figure.subject === subject);
}

function rateOf(figure: Measurement): number | undefined {
  return base(figure, "mean") ?? base(figure, "value");
}

function conditions({ parameters = {} }: Measurement, without: readonly string[] = []): string {
  const kept = Object.entries(parameters).filter(([name]) => !without.includes(name));
  return JSON.stringify(kept.toSorted(([a], [b]) => a.localeCompare(b)));
}

function derived(
  subject: string,
  unit: "percent" | "count" | "USD",
  value: number,
  from: string,
  { parameters }: Measurement,
): readonly Measurement[] {
  const note = `Derived here from ${from}.`;
  return [
    {
      subject,
      unit,
      statistics: { value },
      qualifier: "derived",
      note,
      ...(parameters && { parameters }),
    },
  ];
}
