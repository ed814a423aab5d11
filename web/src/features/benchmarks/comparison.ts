import { type Comparability, comparabilityOf, type Figure, fits, isAbout } from "./comparability";
import { everyFigureOf } from "./derive";
import { base, formatValue, headline, type Statistic, short } from "./figures";
import { groupBy } from "./group";
import {
  type Absent,
  type Cite,
  type Condition,
  type Environment,
  type Measurement,
  type Parameter,
  RULES,
  type Rules,
  type Table,
} from "./record.gen";
import type { Run, Source } from "./runs";

/** A figure of ours that corresponds to one in a published row. */
export interface Answer {
  readonly figure: Measurement;
  /** Heading of the published column. */
  readonly column: string;
  readonly text: string;
  /** Our conditions that the report does not state, or states differently: `threads 2`. */
  readonly conditions: readonly string[];
  readonly like: Comparability;
}

/** Entry in the column *Ours* of a published row. */
export type ComparedRow =
  /** A row without figures. */
  | { readonly at: "nothing" }
  | { readonly at: "absent"; readonly why: string }
  | { readonly at: "measured"; readonly answers: readonly Answer[] };

/** A published figure with the table cell that it cites. */
interface Cited extends Figure {
  readonly statistic: string;
  readonly column: number;
}

/** Subjects that are derived from other figures of their row. */
const DERIVED: ReadonlySet<string> = new Set(["overhead", "share", "difference", "slo.target"]);

/** Entries of `ours` for every row of a published table, in the table's order. */
export function compareTable(source: Source, table: Table, ours: Run): readonly ComparedRow[] {
  const cited = citesOf(source, table.id);
  // Includes peers: their transports correspond to published ones that we do not have.
  const measured = everyFigureOf(ours.record).map((figure): Figure => ({ run: ours, figure }));
  const taken = new Set<Measurement>();
  return table.rows.map((_, row) => compareRow(cited.get(row) ?? [], table, measured, ours, taken));
}

function compareRow(
  cited: readonly Cited[],
  table: Table,
  measured: readonly Figure[],
  ours: Run,
  taken: Set<Measurement>,
): ComparedRow {
  const [first] = cited;
  if (!first) return { at: "nothing" };
  const answers: Answer[] = [];
  for (const one of cited) {
    const found = nearest(one, measured);
    const text = found && formatStatistic(found.figure, one.statistic);
    if (!found || text === undefined) continue;
    const { figure } = found;
    // A report with three runs has three rows; our single run must not fill all of them.
    if (one.run.key.includes("/run-") && taken.has(figure)) continue;
    if (one.run.key.includes("/run-")) taken.add(figure);
    const like = comparabilityOf(found, one);
    // One figure of ours may correspond to columns of two systems: list it once, unless the reasons differ.
    if (answers.some((there) => there.text === text && there.like.reason === like.reason)) continue;
    const column = table.columns[one.column] ?? "";
    answers.push({ figure, column, text, like, conditions: unstated(figure, one.figure) });
  }
  return answers.length > 0 ? { at: "measured", answers } : { at: "absent", why: absence(first, ours) };
}

/** Figures by row, in the order of their columns, with derived figures last. */
function citesOf(source: Source, table: string): ReadonlyMap<number, readonly Cited[]> {
  const cited = source.runs.flatMap((run) =>
    run.figures
      .filter((figure) => headline(figure) !== undefined)
      .flatMap((figure) => cellsOf(figure.cite, table).map((cell) => ({ run, figure, ...cell }))),
  );
  const follows = ({ figure }: Cited) => Number(DERIVED.has(figure.subject));
  return groupBy(
    cited.toSorted((a, b) => follows(a) - follows(b) || a.column - b.column),
    ({ row }) => row,
  );
}

function cellsOf(cite: Cite | undefined, table: string) {
  if (cite?.table !== table) return [];
  return Object.entries(cite.cells ?? {}).map(([statistic, [row, column]]) => ({ row, column, statistic }));
}

/** Our figure with the most similar conditions: no condition that both state differs, except for a stand-in. */
export function nearest(theirs: Figure, ours: readonly Figure[]): Figure | undefined {
  let best: { readonly one: Figure; readonly rank: readonly number[] } | undefined;
  for (const one of ours) {
    if (!answers(one, theirs)) continue;
    const rank = rankOf(one, theirs);
    if (rank && (!best || higher(rank, best.rank))) best = { one, rank };
  }
  return best?.one;
}

function answers(ours: Figure, theirs: Figure): boolean {
  const { subject } = ours.figure;
  // Their inference within a request corresponds to our bare engine, measured in turns with the request.
  if (theirs.figure.subject === "request.inference_only")
    return subject === "request.end_to_end" && fits(ours, [["path", { is: ["bare engine"] }]]);
  return subject === theirs.figure.subject;
}

/** Rank, compared from left to right: agreement, then the preferences in order. Null if a condition differs. */
function rankOf(ours: Figure, theirs: Figure): readonly number[] | null {
  const own = ours.figure.parameters ?? {};
  let agreement = 0;
  // The aggregation report has one run per platform; ours has one run for all platforms.
  if (own.platform !== undefined) {
    const platform = platformOf(theirs.run.record.environment);
    if (!fits(ours, [["platform", { begins: [platform] }]])) return null;
    agreement += 2;
  }
  for (const [name, value] of Object.entries(theirs.figure.parameters ?? {})) {
    const stated = own[name];
    if (stated === undefined) {
      // A sum of both directions does not correspond to one direction.
      if (name === "direction") return null;
      if (!RULES.theirs_alone.includes(name)) agreement -= 1;
    } else if (same(stated, value)) agreement += 2;
    else if (name === "attestation") agreement += Number(paired(RULES.proofs, stated, value));
    else if (!paired(RULES.stand_ins, stated, value)) return null;
  }
  // Throughput is of a burst, unless the figure states round trips.
  if (fits(ours, BOTH_WAYS) && !fits(theirs, BOTH_WAYS)) return null;
  // A peer's figure corresponds only to a published one of a transport.
  const compared = /^(inference|peers)\./.test(ours.figure.subject);
  if (!fits(ours, OURS) && !compared && theirs.figure.parameters?.transport === undefined) return null;
  return [agreement, ...RULES.preferences.map((one) => Number(fits(ours, [one])))];
}

const BOTH_WAYS: readonly Condition[] = [["pattern", { is: ["round trip"] }]];
const OURS: readonly Condition[] = [["engine", { begins: ["fused-f32", "clearseal"] }]];

/** Whether a table of pairs, theirs first, maps theirs to ours. */
function paired(pairs: Rules["proofs"], ours: Parameter, theirs: Parameter): boolean {
  return pairs.some(([first, second]) => first === theirs && second === ours);
}

function platformOf(environment: Environment): string {
  if (environment === "bare_metal") return "native";
  return environment === "hybrid" ? "hybrid" : "enclave";
}

function same(a: Parameter, b: Parameter): boolean {
  if (typeof a === "number" && typeof b === "number") return Math.abs(a - b) < 0.5;
  return String(a).toLowerCase() === String(b).toLowerCase();
}

function higher(a: readonly number[], b: readonly number[]): boolean {
  const at = a.findIndex((one, index) => one !== b[index]);
  return at >= 0 && (a[at] ?? 0) > (b[at] ?? 0);
}

const STATISTICS: ReadonlySet<string> = new Set(["p50", "p95", "p99", "min", "max"]);

/** Our statistic of that name, with its unit. A mean corresponds to a plain value; a percentile only to itself. */
function formatStatistic(ours: Measurement, statistic: string): string | undefined {
  const value = STATISTICS.has(statistic) ? base(ours, statistic as Statistic) : headline(ours);
  if (value === undefined) return undefined;
  return `${ours.subject === "overhead" && value > 0 ? "+" : ""}${formatValue(ours, value)}`;
}

/** Parameters that are stated above the tables, or are not conditions. */
const SHOWN_ELSEWHERE: ReadonlySet<string> = new Set(["source", "statistic", "of"]);

function unstated({ parameters = {} }: Measurement, theirs: Measurement): readonly string[] {
  return Object.entries(parameters).flatMap(([name, value]) => {
    const stated = theirs.parameters?.[name];
    if (SHOWN_ELSEWHERE.has(name) || (stated !== undefined && same(stated, value))) return [];
    return [`${name.replaceAll("_", " ")} ${typeof value === "number" ? short(value) : value}`];
  });
}

/** Reason why our run has no such figure: as the run states it, or according to the rules. */
export function absence(theirs: Figure, ours: Run): string {
  if (theirs.run.key.includes("/run-")) return "ours ran once on this machine, not three times";
  const stated = statedAbsence(theirs, ours.record.absent ?? []);
  if (stated) return stated.why.replace("not measured yet: ", "");
  return RULES.absent.find((rule) => isAbout(rule, theirs))?.reason ?? "";
}

/**
 * The reason that our run itself states: for the figure's workload or subject, or for the benchmark that measures it. A reason for
 * another number of devices, or for vsock alone, does not explain another figure.
 */
function statedAbsence({ figure }: Figure, absent: readonly Absent[]): Absent | undefined {
  const { subject, parameters = {} } = figure;
  const { workload, devices, transport } = parameters;
  const [area] = subject.split(".");
  const vsock = String(transport).includes("vsock");
  const names = [subject];
  if (area === "transport") names.push(...(vsock ? ["transport.vsock"] : []), "transport");
  if (area === "aggregation" && workload !== undefined) {
    names.unshift(`aggregation.${workload}`);
    names.push(`aggregation-${workload}`);
  }
  const explains = ({ why }: Absent) => {
    const counted = /^([\d,]+) devices /.exec(why)?.[1]?.replaceAll(",", "");
    return (vsock || !why.includes("vsock")) && (counted === undefined || counted === String(devices));
  };
  for (const name of names) {
    const found = absent.find((one) => one.subject === name && explains(one));
    if (found) return found;
  }
  return undefined;
}
