import { bytesLabel, short } from "./figures";
import { type Condition, ENVIRONMENTS, type Measurement, RULES, type Rule, type Test } from "./record.gen";
import { machineOf, type Run } from "./runs";

/** A figure of one run. */
export interface Figure {
  readonly run: Run;
  readonly figure: Measurement;
}

/** A condition of a figure; null if its record does not state it. */
export interface Stated {
  readonly name: string;
  readonly ours: string | null;
  readonly theirs: string | null;
}

export interface Comparability {
  /** Conditions that differ, or that only one figure states. */
  readonly differ: readonly Stated[];
  /** Reason why the figures are not comparable; null if they measure the same thing. */
  readonly reason: string | null;
  /** Whether their ratio is meaningful: the same thing, measured on one machine. */
  readonly ratio: boolean;
}

/** Parameters that are conditions, with their titles. Names and labels of reports are not conditions. */
const PARAMETERS: Readonly<Record<string, string>> = {
  tokens: "tokens",
  batch: "batch",
  threads: "threads",
  clients: "clients",
  certificates: "certificates",
  keys: "keys",
  kind: "kind",
  path: "path",
  process: "process",
  payload_bytes: "payload",
  response_bytes: "response",
  transport: "transport",
  attestation: "attestation",
  direction: "direction",
  pattern: "pattern",
  platform: "platform",
};

/** Whether a figure fits each of `conditions`; `environment` is that of its record. */
export function fits({ run, figure }: Figure, conditions: readonly Condition[]): boolean {
  return conditions.every(([name, test]) => {
    const value = name === "environment" ? run.record.environment : figure.parameters?.[name];
    return accepts(test, value === undefined ? undefined : String(value));
  });
}

/** Whether a rule applies to a published figure. */
export function isAbout({ subjects, theirs }: Rule, figure: Figure): boolean {
  const { subject } = figure.figure;
  const named = subjects.length === 0 || subjects.some((beginning) => subject.startsWith(beginning));
  return named && fits(figure, theirs);
}

function accepts(test: Test, text: string | undefined): boolean {
  if ("is" in test) return text !== undefined && test.is.includes(text);
  if ("has" in test) return text?.includes(test.has) ?? false;
  if ("lacks" in test) return !text?.includes(test.lacks);
  return text === undefined || test.begins.some((word) => text.startsWith(word));
}

/** The conditions that a figure's record states. */
function conditions({ run, figure }: Figure): ReadonlyMap<string, string> {
  const { record } = run;
  const found = new Map<string, string>();
  const machine = machineOf(record);
  if (machine) found.set("machine", machine);
  found.set("environment", ENVIRONMENTS[record.environment]);
  if (record.setup?.build) found.set("build", record.setup.build);
  for (const [name, title] of Object.entries(PARAMETERS)) {
    const value = figure.parameters?.[name];
    if (value === undefined) continue;
    const bytes = name.endsWith("_bytes") && typeof value === "number";
    found.set(title, bytes ? bytesLabel(value) : typeof value === "number" ? short(value) : value);
  }
  return found;
}

/** Compares the conditions of two figures. */
export function comparabilityOf(ours: Figure, theirs: Figure): Comparability {
  const [own, other] = [conditions(ours), conditions(theirs)];
  const names = new Set([...own.keys(), ...other.keys()]);
  const differ = [...names].flatMap((name): Stated[] => {
    const condition = { name, ours: own.get(name) ?? null, theirs: other.get(name) ?? null };
    return condition.ours === condition.theirs ? [] : [condition];
  });
  const reason = unlike(ours, theirs, differ);
  // Two files that name no machine may come from different ones.
  const known = own.has("machine") || ours.run.from === theirs.run.from;
  const [processor, theirProcessor] = [ours, theirs].map(({ run }) =>
    run.record.machine?.cpu_features?.join(),
  );
  const sameProcessor =
    processor === undefined || theirProcessor === undefined || processor === theirProcessor;
  const sameMachine = known && sameProcessor && !differ.some(({ name }) => name === "machine");
  return { differ, reason, ratio: reason === null && sameMachine };
}

/** Conditions that may differ between comparable figures. Any other, if both state it, must be equal. */
const CIRCUMSTANCES = new Set(["machine", "build", "environment"]);

function unlike(ours: Figure, theirs: Figure, differ: readonly Stated[]): string | null {
  const turns = ours.figure.turns?.id;
  if (turns !== undefined && turns === theirs.figure.turns?.id) return null;
  // Within one file, unstated conditions are the same for all figures.
  const applies = ({ ours, theirs, reason }: Rule) =>
    reason === null || (ours.length > 0 && theirs.length > 0);
  const rules = ours.run.from === theirs.run.from ? RULES.unlike.filter(applies) : RULES.unlike;
  const rule = rules.find((rule) => isAbout(rule, theirs) && fits(ours, rule.ours));
  if (rule?.reason) return rule.reason;
  const stated = differ.find(
    ({ name, ours, theirs: other }) => !CIRCUMSTANCES.has(name) && ours !== null && other !== null,
  );
  return stated ? `${stated.name}: ours ${stated.ours}, theirs ${stated.theirs}` : null;
}
