import { bytesLabel, short } from "./figures";
import { type Condition, ENVIRONMENTS, type Measurement, RULES, type Rule, type Test } from "./record.gen";
import { machineOf, type Run } from "./runs";

/** A figure of one run. */
export interface Figure {
  readonly run: Run;
  readonly figure: Measurement;
}

/** Something that a figure depends on; null where its record does not state it. */
export interface Stated {
  readonly name: string;
  readonly ours: string | null;
  readonly theirs: string | null;
}

export interface Likeness {
  /** Conditions that differ, or that only one of them states. */
  readonly differ: readonly Stated[];
  /** Why one of them says nothing about the other; null where they are the same thing measured. */
  readonly reason: string | null;
  /** Whether one divided by the other says something about the code: the same thing, on one machine. */
  readonly ratio: boolean;
}

/** Parameters that a figure depends on, and how they are called. Names and labels of reports are none. */
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

/** Whether a figure fits each of `conditions`; `environment` is where its record was made. */
export function fits({ run, figure }: Figure, conditions: readonly Condition[]): boolean {
  return conditions.every(([name, test]) => {
    const value = name === "environment" ? run.record.environment : figure.parameters?.[name];
    return accepts(test, value === undefined ? undefined : String(value));
  });
}

/** Whether a rule is about a figure, as the published one. */
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

/** Conditions of a figure, as its record states them. */
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

/** Compares what two figures depend on. */
export function likeness(ours: Figure, theirs: Figure): Likeness {
  const [own, other] = [conditions(ours), conditions(theirs)];
  const names = new Set([...own.keys(), ...other.keys()]);
  const differ = [...names].flatMap((name): Stated[] => {
    const condition = { name, ours: own.get(name) ?? null, theirs: other.get(name) ?? null };
    return condition.ours === condition.theirs ? [] : [condition];
  });
  const reason = unlike(ours, theirs, differ);
  // Two files that name no machine may be of any two.
  const known = own.has("machine") || ours.run.from === theirs.run.from;
  const sameMachine = known && !differ.some(({ name }) => name === "machine");
  return { differ, reason, ratio: reason === null && sameMachine };
}

/** Where and with what a figure was made never makes it another figure; everything else does, once both state it. */
const CIRCUMSTANCES = new Set(["machine", "build", "environment"]);

function unlike(ours: Figure, theirs: Figure, differ: readonly Stated[]): string | null {
  const turns = ours.figure.turns?.id;
  if (turns !== undefined && turns === theirs.figure.turns?.id) return null;
  // Within one file, what a record does not state is the same for all of its figures.
  const told = ({ ours, theirs, reason }: Rule) => reason === null || (ours.length > 0 && theirs.length > 0);
  const rules = ours.run.from === theirs.run.from ? RULES.unlike.filter(told) : RULES.unlike;
  const rule = rules.find((rule) => isAbout(rule, theirs) && fits(ours, rule.ours));
  if (rule?.reason) return rule.reason;
  const stated = differ.find(
    ({ name, ours, theirs: other }) => !CIRCUMSTANCES.has(name) && ours !== null && other !== null,
  );
  return stated ? `${stated.name}: ours ${stated.ours}, theirs ${stated.theirs}` : null;
}
