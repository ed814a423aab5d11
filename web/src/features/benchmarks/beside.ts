import { base, formatValue, headline, type Statistic, short } from "./figures";
import { grouped } from "./group";
import { type Likeness, likeness } from "./likeness";
import type { Cite, Environment, Measurement, Parameter, Table } from "./record.gen";
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
export type Beside =
  /** A row of words. */
  | { readonly at: "nothing" }
  | { readonly at: "absent"; readonly why: string }
  | { readonly at: "measured"; readonly answers: readonly Answer[] };

/** A figure that a row is cited by, from the record that holds it. */
interface Cited {
  readonly run: Run;
  readonly figure: Measurement;
  readonly statistic: string;
  readonly column: number;
}

/** Subjects that follow from the other figures of their row. */
const DERIVED: ReadonlySet<string> = new Set(["overhead", "share", "difference", "slo.target"]);

/** What `ours` has for every row of a published table, in the table's order. */
export function besideTable(source: Source, table: Table, ours: Run): readonly Beside[] {
  const cited = citesOf(source, table.id);
  const taken = new Set<Measurement>();
  return table.rows.map((_, row) => besideRow(cited.get(row) ?? [], table, ours, taken));
}

function besideRow(cited: readonly Cited[], table: Table, ours: Run, taken: Set<Measurement>): Beside {
  const [first] = cited;
  if (!first) return { at: "nothing" };
  const answers: Answer[] = [];
  for (const one of cited) {
    const figure = nearest(one, ours);
    const text = figure && said(figure, one.statistic);
    if (!figure || text === undefined) continue;
    // A report that ran three times has three rows; ours ran once, and is not three.
    if (one.run.key.includes("/run-") && taken.has(figure)) continue;
    if (one.run.key.includes("/run-")) taken.add(figure);
    const like = likeness({ run: ours, figure }, one);
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

/** Parameters that tell published runs apart and that ours do not have. */
const THEIRS: ReadonlySet<string> = new Set(["padded", "attestation", "study", "platform"]);

/** What stands in for what is not here; `likeness` says that it is not the same. */
const STAND_INS: ReadonlyMap<string, string> = new Map([
  ["vsock", "unix"],
  ["secure channel over vsock", "secure channel over unix"],
]);

/** Our figure that was measured most like the cited one: nothing that both state differs, but for a stand-in. */
function nearest({ figure: theirs, run }: Cited, ours: Run): Measurement | undefined {
  let best: { readonly figure: Measurement; readonly rank: readonly number[] } | undefined;
  for (const figure of ours.figures) {
    if (!answers(figure, theirs)) continue;
    const rank = rankOf(figure, theirs, run.record.environment);
    if (rank && (!best || higher(rank, best.rank))) best = { figure, rank };
  }
  return best?.figure;
}

function answers({ subject, parameters }: Measurement, theirs: Measurement): boolean {
  // Their inference within a request is our engine by itself, in turns with the request.
  if (theirs.subject === "request.inference_only")
    return subject === "request.end_to_end" && parameters?.path === "bare engine";
  return subject === theirs.subject;
}

/** Compared from left to right: agreement, then what is most like the published setting. Null where a condition differs. */
function rankOf(ours: Measurement, theirs: Measurement, place: Environment): readonly number[] | null {
  const own = ours.parameters ?? {};
  let agreement = 0;
  if (own.platform !== undefined) {
    if (!String(own.platform).startsWith(platformOf(place))) return null;
    agreement += 2;
  }
  for (const [name, value] of Object.entries(theirs.parameters ?? {})) {
    const stated = own[name];
    if (stated === undefined) {
      // Bytes of both ways are no bytes of one way.
      if (name === "direction") return null;
      if (!THEIRS.has(name)) agreement -= 1;
    } else if (same(stated, value)) agreement += 2;
    else if (name !== "attestation" && STAND_INS.get(String(value)) !== stated) return null;
  }
  const starts = (name: string, words: readonly string[]) =>
    own[name] === undefined || words.some((word) => String(own[name]).startsWith(word));
  return [
    agreement,
    // The reports' padded length, where theirs does not say.
    own.tokens === 128,
    // What ships, before what it is compared with.
    starts("engine", ["fused-f32", "clearseal"]) &&
      starts("process", ["enclave-server"]) &&
      starts("codec", ["channel"]),
    own.against === undefined || theirs.parameters?.against !== undefined,
    // Theirs is not post-quantum, and verifies P-384 in Rust.
    own.kind !== "X-Wing" && own.kind !== "aws-lc-rs",
    // Theirs has the far end on another thread.
    own.threads === 2,
    own.mode !== "sound",
  ].map(Number);
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

/** Why there is none of ours, by what the figure is; the first that fits. */
const ABSENT: readonly (readonly [RegExp, string])[] = [
  [/^stage\.attestation$/, "the security module is simulated"],
  [/^stage\.key_release$/, "AWS's key service is simulated, and its time says nothing of a network"],
  [/^request\.tcp_handshake$/, "a request is sealed by itself, without a handshake"],
  [/^transport\./, "this run had no such transport"],
  [/^memory\.|^overhead$/, "the run has no like process outside of an enclave to set it against"],
  [/^cost\./, "this run was on a machine without a price; the view Cost takes one"],
  [/^(share|difference|slo\.)/, "what it follows from was not measured"],
  [/^claim$/, "a claim, whose figures are in the tables below"],
  [/^platform\./, "it takes hardware that is not here"],
];

/** As our own run says it, or by what the figure is. */
function absence({ figure, run }: Cited, ours: Run): string {
  if (run.key.includes("/run-")) return "ours ran once on this machine, not three times";
  const subject = figure.subject.startsWith("aggregation.") ? "aggregation.terse" : figure.subject;
  const stated = ours.record.absent?.find((one) => one.subject === subject);
  if (stated) return stated.why.replace("not measured yet: ", "");
  return ABSENT.find(([subject]) => subject.test(figure.subject))?.[1] ?? "not part of this run";
}
