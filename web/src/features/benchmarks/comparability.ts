import { bytesLabel, short } from "./figures";
import {
  type Condition,
  ENVIRONMENTS,
  type Environment,
  type Measurement,
  RULES,
  type Rule,
  type Test,
} from "./record.gen";
import { machineOf, memoryOf, type Run } from "./runs";

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

/** Parameters that are labels. All others are conditions. */
export const LABELS: ReadonlySet<string> = new Set(["engine", "source", "padded"]);

const TITLES: Readonly<Record<string, string>> = { payload_bytes: "payload", response_bytes: "response" };

/** Number format of the engine that a figure names; an engine that names none computes in f32. */
export function precisionOf({ parameters }: Measurement): string {
  const format = /(?:^|[^a-z0-9])(bf16|f16|fp16|int8|q8|int4|q4)(?![a-z0-9])/i.exec(
    String(parameters?.engine ?? ""),
  );
  return format?.[1]?.toLowerCase().replace("fp", "f").replace("q", "int") ?? "f32";
}

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
  const { cpu_features, vcpus } = record.machine ?? {};
  if (cpu_features && cpu_features.length > 0)
    found.set("instruction sets", cpu_features.toSorted().join(" "));
  if (vcpus !== undefined) found.set("processors", String(vcpus));
  const memory = memoryOf(record.machine ?? {});
  if (memory) found.set("memory", memory);
  found.set("environment", ENVIRONMENTS[record.environment]);
  if (record.setup?.build) found.set("build", record.setup.build);
  for (const [name, value] of Object.entries(figure.parameters ?? {})) {
    if (LABELS.has(name)) continue;
    const title = TITLES[name] ?? name.replaceAll("_", " ");
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
  const [precision, theirPrecision] = [precisionOf(ours.figure), precisionOf(theirs.figure)];
  if (precision !== theirPrecision)
    differ.push({ name: "precision", ours: precision, theirs: theirPrecision });
  const reason = unlike(ours, theirs, differ);
  return { differ, reason, ratio: reason === null && shareMachine(ours, theirs, differ) };
}

const HOST = ["machine", "instruction sets"];
const SHARE = ["processors", "memory"];
const ISOLATED: ReadonlySet<Environment> = new Set(["enclave", "sgx", "hybrid", "confidential_vm"]);

/** Whether one machine measured both, as far as their records state. Unnamed machines of two files may differ. */
function shareMachine({ run: a }: Figure, { run: b }: Figure, differ: readonly Stated[]): boolean {
  if (a.record === b.record) return true;
  const differs = (names: readonly string[]) => differ.some(({ name }) => names.includes(name));
  if (differs(HOST)) return false;
  const [isolated, other] = [a, b].map(({ record }) => ISOLATED.has(record.environment));
  // A host gives its enclave a part of its processors and memory.
  if (a.from === b.from) return isolated !== other || !differs(SHARE);
  const named = machineOf(a.record) !== undefined && a.record.machine?.cpu_features !== undefined;
  return named && !differs(SHARE);
}

/** Conditions that may differ between comparable figures. Any other, if both state it, must be equal. */
const CIRCUMSTANCES: ReadonlySet<string> = new Set([...HOST, ...SHARE, "build", "environment"]);

function unlike(ours: Figure, theirs: Figure, differ: readonly Stated[]): string | null {
  const turns = ours.figure.turns?.id;
  const together = turns !== undefined && turns === theirs.figure.turns?.id;
  // Within one file, unstated conditions are the same for all figures.
  const applies = ({ ours, theirs, reason }: Rule) =>
    reason === null || (ours.length > 0 && theirs.length > 0);
  const rules = ours.run.from === theirs.run.from ? RULES.unlike.filter(applies) : RULES.unlike;
  const rule = together ? undefined : rules.find((rule) => isAbout(rule, theirs) && fits(ours, rule.ours));
  if (rule?.reason) return rule.reason;
  const stated = differ.find(
    ({ name, ours, theirs: other }) => !CIRCUMSTANCES.has(name) && ours !== null && other !== null,
  );
  return stated ? `${stated.name}: ours ${stated.ours}, theirs ${stated.theirs}` : null;
}
