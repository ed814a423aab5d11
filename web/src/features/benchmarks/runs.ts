import type { Problem } from "./check";
import { everyFigureOf } from "./derive";
import type { Reading, Refused } from "./read";
import { type BenchmarkRecord, ENVIRONMENTS, type Measurement, type Report, type Table } from "./record.gen";

/** A record as the page shows it; each peer that a record measures is a separate run. */
export interface Run {
  /** Stable key for links: `ephemeralml-b00bab1/b00bab1-enclave`. */
  readonly key: string;
  readonly title: string;
  readonly kind: "published" | "ours" | "dropped";
  /** Title of its report, or name of its file. */
  readonly from: string;
  readonly record: BenchmarkRecord;
  readonly figures: readonly Measurement[];
  /** Whether it is a peer: another implementation, measured in the same record. */
  readonly peer: boolean;
  /** Text for search, in lower case. */
  readonly words: string;
}

/** The contents of a file. */
export interface Source {
  readonly id: string;
  readonly report: Report | null;
  readonly tables: readonly Table[];
  readonly runs: readonly Run[];
  /** The same runs, by their keys. */
  readonly byKey: ReadonlyMap<string, Run>;
  /** Fingerprint of an opened file's contents. */
  readonly contents?: string;
}

/** Result of reading a dropped file. */
export type Dropped =
  | { readonly status: "read"; readonly source: Source; readonly notices: readonly Problem[] }
  | Refused;

/** A message of the reader: some of the runs, or the end. */
export type Answer =
  | { readonly status: "part"; readonly runs: readonly Run[] }
  | {
      readonly status: "read";
      readonly source: Omit<Source, "runs" | "byKey">;
      readonly notices: readonly Problem[];
    }
  | Refused;

/** Maximum number of runs in a chart: the number of distinguishable colours. */
export const MAX_CHOSEN = 8;

/** Builds a source from a parsed file. Its id must not be in `taken`, the ids of other sources. */
export function sourceOf(
  name: string,
  kind: Run["kind"],
  reading: Reading & { status: "read" },
  taken: readonly string[] = [],
): Source {
  const report = reading.file?.report ?? null;
  // Links separate keys with commas.
  const called = report?.id ?? name.replace(/\.json$/, "").replaceAll(",", "-");
  const id = taken.includes(called) ? `${called}-opened` : called;
  const runs = distinct(
    reading.records.flatMap((record, index) => runsOf(record, id, index, kind, report?.title ?? name)),
  );
  const byKey = new Map(runs.map((run) => [run.key, run]));
  return { id, report, tables: reading.file?.tables ?? [], runs, byKey };
}

/** Makes keys unique: a second record with the id `a` becomes `a~2`. */
function distinct(runs: readonly Run[]): readonly Run[] {
  const seen = new Map<string, number>();
  return runs.map((run) => {
    const times = (seen.get(run.key) ?? 0) + 1;
    seen.set(run.key, times);
    return times === 1 ? run : { ...run, key: `${run.key}~${times}` };
  });
}

function runsOf(record: BenchmarkRecord, id: string, index: number, kind: Run["kind"], from: string): Run[] {
  const key = `${id}/${record.id ?? index}`;
  const title = record.title ?? `${from}, ${index + 1}`;
  const figures = everyFigureOf(record);
  const peers = (record.peers ?? []).map(({ name }) => name);
  const { environment, hardware = "", commit = "", timestamp = "", machine } = record;
  const about = `${from} ${ENVIRONMENTS[environment]} ${hardware} ${commit} ${timestamp} ${machine?.cpu ?? ""}`;
  const named = (title: string) => ({ title, words: `${title} ${about}`.toLowerCase() });
  const own = figures.filter(({ parameters }) => !peers.includes(String(parameters?.engine)));
  const others = peers.map((peer) => ({
    key: `${key}/${peer}`,
    ...named(`${peer}, same run`),
    kind,
    from,
    record,
    figures: figures.filter(({ parameters }) => parameters?.engine === peer),
    peer: true,
  }));
  return [{ key, ...named(title), kind, from, record, figures: own, peer: false }, ...others];
}

/** The record's description of its machine, and the processor. */
export function machineOf({ hardware, machine }: BenchmarkRecord): string | undefined {
  return [hardware, machine?.cpu].filter(Boolean).join(", ") || undefined;
}

/** Identifies a machine as far as its record states it: with processors, memory and instruction sets. */
export function machineKey({ hardware, machine = {} }: BenchmarkRecord): string {
  const { cpu, cpu_features, vcpus } = machine;
  return JSON.stringify([hardware, cpu, cpu_features?.toSorted(), vcpus, memoryOf(machine)]);
}

/** Memory in GiB, because what a kernel reserves varies by some MiB. */
export function memoryOf({ memory_mib }: NonNullable<BenchmarkRecord["machine"]>): string | undefined {
  return memory_mib === undefined ? undefined : `${Math.round(memory_mib / 1_024)} GiB`;
}

/** The day of a record; Unix seconds, as the published format writes them, become a date. */
export function dateOf({ timestamp }: BenchmarkRecord): string | undefined {
  if (timestamp === undefined) return undefined;
  if (!/^\d+Z$/.test(timestamp)) return timestamp.slice(0, 10);
  const date = new Date(Number.parseInt(timestamp, 10) * 1_000);
  return Number.isNaN(date.getTime()) ? timestamp : date.toISOString().slice(0, 10);
}

/** The runs of the cross-platform table: the newest report's table, and its enclave. */
export function acrossPlatforms(runs: readonly Run[]): { readonly table?: Run; readonly enclave?: Run } {
  const newest = (name: string) => runs.findLast(({ key }) => key.endsWith(name));
  const [table, enclave] = [newest("-cross-platform"), newest("b00bab1-enclave")];
  return { ...(table && { table }), ...(enclave && { enclave }) };
}

/** Keys of the default runs: ours, and the headline runs of each report. */
export function firstChoice(runs: readonly Run[]): readonly string[] {
  const ours = runs.filter(({ kind }) => kind === "ours").slice(0, 2);
  const headline = [
    "ephemeralml-b00bab1/b00bab1-bare-metal",
    "ephemeralml-b00bab1/b00bab1-enclave",
    "ephemeralml-3e7b676/3e7b676-bare-metal",
    "ephemeralml-3e7b676/3e7b676-enclave",
  ];
  return [...ours.map(({ key }) => key), ...headline.filter((key) => runs.some((run) => run.key === key))];
}
