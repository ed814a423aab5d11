import { base, figuresOf, numeric } from "./figures";
import type { BenchmarkRecord, Measurement } from "./record.gen";

/** The reports' padded length, at which they state throughput and cost. */
const TOKENS = 128;

/** Every figure of a record: those that it states, and those that follow from them. */
export function everyFigureOf(record: BenchmarkRecord): readonly Measurement[] {
  const stated = figuresOf(record);
  return [...stated, ...derivedOf(stated)];
}

/** Figures that follow from others of the same record and that it does not state itself. */
export function derivedOf(figures: readonly Measurement[]): readonly Measurement[] {
  return [...efficiencies(figures), ...hourly(figures)];
}

/** Throughput of several clients over as many times that of one: same record, same parameters but the clients. */
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
      "its throughput over that of one client, times the clients",
      figure,
    );
  });
}

function hourly(figures: readonly Measurement[]): readonly Measurement[] {
  if (of(figures, "cost.inferences_per_hour").length > 0) return [];
  return of(figures, "inference.throughput").flatMap((figure) => {
    const rate = rateOf(figure);
    if (rate === undefined || (numeric(figure, "tokens") ?? TOKENS) !== TOKENS) return [];
    return derived("cost.inferences_per_hour", "count", rate * 3_600, "its inferences a second", figure);
  });
}

/** What a million inferences cost at `price` dollars an hour; nothing where the record says what they cost. */
export function costAt(price: number, figures: readonly Measurement[]): readonly Measurement[] {
  if (of(figures, "cost.per_million").length > 0) return [];
  return of(figures, "cost.inferences_per_hour").flatMap((figure) => {
    const hour = base(figure, "value");
    if (!hour) return [];
    const cost = (price / hour) * 1_000_000;
    return derived("cost.per_million", "USD", cost, `$${price} an hour, as typed here`, figure);
  });
}

/** Dollars an hour; null for what is no price. */
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
