import { everyFigureOf } from "./derive";
import { base, formatValue, headline, type Statistic, short } from "./figures";
import { grouped } from "./group";
import { type Figure, fits, isAbout, type Likeness, likeness } from "./likeness";
import {
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

/** A figure of ours that answers one of a published row. */
export interface Answer {
  readonly figure: Measurement;
  /** Of the published column that it answers. */
  readonly column: string;
  readonly text: string;
  /** What ours depends on and theirs does not state, or states otherwise: `threads 2`. */
  readonly conditions: readonly string[];
  readonly like: Likeness;
}

/** What stands in the column *ours* of a published row. */
export type ComparedRow =
  /** A row of words. */
  | { readonly at: "nothing" }
  | { readonly at: "absent"; readonly why: string }
  | { readonly at: "measured"; readonly answers: readonly Answer[] };

/** A figure that a row is cited by, from the record that holds it. */
interface Cited extends Figure {
  readonly statistic: string;
  readonly column: number;
}

/** Subjects that follow from the other figures of their row. */
const DERIVED: ReadonlySet<string> = new Set(["overhead", "share", "difference", "slo.target"]);

/** What `ours` has for every row of a published table, in the table's order. */
export function compareTable(source: Source, table: Table, ours: Run): readonly ComparedRow[] {
  const cited = citesOf(source, table.id);
  // With those of its peers: published transports that we do not have stand beside theirs.
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
    const text = found && said(found.figure, one.statistic);
    if (!found || text === undefined) continue;
    const { figure } = found;
    // A report that ran three times has three rows; ours ran once, and is not three.
    if (one.run.key.includes("/run-") && taken.has(figure)) continue;
    if (one.run.key.includes("/run-")) taken.add(figure);
    const like = likeness(found, one);
    // Columns of two systems may be answered by one figure of ours: once is enough, unless one of them is not comparable.
    if (answers.some((there) => there.text === text && there.like.reason === like.reason)) continue;
    const column = table.columns[one.column] ?? "";
    answers.push({ figure, column, text, like, conditions: unstated(figure, one.figure) });
  }
  return answers.length > 0 ? { at: "measured", answers } : { at: "absent", why: absence(first, ours) };
}

/** By row: the cells' figures in the order of their columns, those that follow from others last. */
function citesOf(source: Source, table: string): ReadonlyMap<number, readonly Cited[]> {
  const cited = source.runs.flatMap((run) =>
    run.figures
      .filter((figure) => headline(figure) !== undefined)
      .flatMap((figure) => cellsOf(figure.cite, table).map((cell) => ({ run, figure, ...cell }))),
  );
  const follows = ({ figure }: Cited) => Number(DERIVED.has(figure.subject));
  return grouped(
    cited.toSorted((a, b) => follows(a) - follows(b) || a.column - b.column),
    ({ row }) => row,
  );
}

function cellsOf(cite: Cite | undefined, table: string) {
  if (cite?.table !== table) return [];
  return Object.entries(cite.cells ?? {}).map(([statistic, [row, column]]) => ({ row, column, statistic }));
}

/** Our figure that was measured most like the cited one: nothing that both state differs, but for a stand-in. */
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
  // Their inference within a request is our engine by itself, in turns with the request.
  if (theirs.figure.subject === "request.inference_only")
    return subject === "request.end_to_end" && fits(ours, [["path", { is: ["bare engine"] }]]);
  return subject === theirs.figure.subject;
}

/** Compared from left to right: agreement, then the preferences in their order. Null where a condition differs. */
function rankOf(ours: Figure, theirs: Figure): readonly number[] | null {
  const own = ours.figure.parameters ?? {};
  let agreement = 0;
  // The aggregation report has a run for each platform, ours has one run for all of them.
  if (own.platform !== undefined) {
    const platform = platformOf(theirs.run.record.environment);
    if (!fits(ours, [["platform", { begins: [platform] }]])) return null;
    agreement += 2;
  }
  for (const [name, value] of Object.entries(theirs.figure.parameters ?? {})) {
    const stated = own[name];
    if (stated === undefined) {
      // Bytes of both ways are no bytes of one way.
      if (name === "direction") return null;
      if (!RULES.theirs_alone.includes(name)) agreement -= 1;
    } else if (same(stated, value)) agreement += 2;
    else if (name === "attestation") agreement += Number(paired(RULES.proofs, stated, value));
    else if (!paired(RULES.stand_ins, stated, value)) return null;
  }
  // Throughput is that of a burst, unless it says that it is of round trips.
  if (fits(ours, BOTH_WAYS) && !fits(theirs, BOTH_WAYS)) return null;
  // A peer's figure answers a published one of a transport, and nothing else.
  const compared = /^(inference|peers)\./.test(ours.figure.subject);
  if (!fits(ours, OURS) && !compared && theirs.figure.parameters?.transport === undefined) return null;
  return [agreement, ...RULES.preferences.map((one) => Number(fits(ours, [one])))];
}

const BOTH_WAYS: readonly Condition[] = [["pattern", { is: ["round trip"] }]];
const OURS: readonly Condition[] = [["engine", { begins: ["fused-f32", "clearseal"] }]];

/** Whether ours stands for theirs in a table of pairs, theirs first. */
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

/** Our statistic of that name, with its unit. A mean answers a plain value; a percentile answers itself alone. */
function said(ours: Measurement, statistic: string): string | undefined {
  const value = STATISTICS.has(statistic) ? base(ours, statistic as Statistic) : headline(ours);
  if (value === undefined) return undefined;
  return `${ours.subject === "overhead" && value > 0 ? "+" : ""}${formatValue(ours, value)}`;
}

/** Named once above the tables, or no condition. */
const SHOWN_ELSEWHERE: ReadonlySet<string> = new Set(["source", "statistic", "of"]);

function unstated({ parameters = {} }: Measurement, theirs: Measurement): readonly string[] {
  return Object.entries(parameters).flatMap(([name, value]) => {
    const stated = theirs.parameters?.[name];
    if (SHOWN_ELSEWHERE.has(name) || (stated !== undefined && same(stated, value))) return [];
    return [`${name.replaceAll("_", " ")} ${typeof value === "number" ? short(value) : value}`];
  });
}

/** As our own run says it, or by what the figure is. */
export function absence(theirs: Figure, ours: Run): string {
  if (theirs.run.key.includes("/run-")) return "ours ran once on this machine, not three times";
  const { subject } = theirs.figure;
  const area = subject.split(".")[0];
  const named = area === "transport" ? area : area === "aggregation" ? "aggregation.terse" : subject;
  const stated = ours.record.absent?.find((one) => one.subject === named);
  if (stated) return stated.why.replace("not measured yet: ", "");
  return RULES.absent.find((rule) => isAbout(rule, theirs))?.reason ?? "";
}
