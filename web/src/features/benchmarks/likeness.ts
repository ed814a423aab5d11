import { bytesLabel, short } from "./figures";
import { ENVIRONMENTS, type Measurement } from "./record.gen";
import { machineOf, type Run } from "./runs";

/** A figure of one run. */
export interface Figure {
  readonly run: Run;
  readonly figure: Measurement;
}

/** Something that a figure depends on; null where its record does not state it. */
export interface Condition {
  readonly name: string;
  readonly ours: string | null;
  readonly theirs: string | null;
}

export interface Likeness {
  /** Conditions that differ, or that only one of them states. */
  readonly differ: readonly Condition[];
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

/** What two records of a subject measure, where that is not the same thing. No parameter of the records says so. */
const UNLIKE: readonly (readonly [RegExp, string])[] = [
  [
    /^stage\./,
    "ours starts processes on a running machine and reads the model from its disk; theirs boots an enclave and fetches the model from storage through the host",
  ],
  [/^request\.session_setup$/, "ours makes keys; theirs attests and sets a channel up"],
  [
    /^request\.crypto/,
    "ours is the cryptography of one sealed request; theirs is what was measured around a channel that stays open",
  ],
  [/^cose\./, "ours checks a chain of five certificates, theirs one of three"],
  [/^memory\./, "ours is an ordinary process, theirs the process of an enclave with another engine"],
  [
    /^transport\.(handshake|first_message|reconnect)/,
    "ours verifies a signature, of an endorsed key or of a document; theirs attests by a mock, or behind vsock in an enclave",
  ],
];

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
  const differ = [...names].flatMap((name): Condition[] => {
    const condition = { name, ours: own.get(name) ?? null, theirs: other.get(name) ?? null };
    return condition.ours === condition.theirs ? [] : [condition];
  });
  const reason = unlike(ours, theirs, differ);
  const sameMachine = !differ.some(({ name }) => name === "machine");
  return { differ, reason, ratio: reason === null && sameMachine };
}

/** Where and with what a figure was made never makes it another figure; everything else does, once both state it. */
const CIRCUMSTANCES = new Set(["machine", "build", "environment"]);

function unlike({ run, figure }: Figure, theirs: Figure, differ: readonly Condition[]): string | null {
  const turns = figure.turns?.id;
  if (turns !== undefined && turns === theirs.figure.turns?.id) return null;
  const known =
    run.from === theirs.run.from ? undefined : UNLIKE.find(([subject]) => subject.test(figure.subject));
  if (known) return known[1];
  const simulated = (one: Run) => one.record.environment === "simulated";
  const enclave = (one: Run) => one.record.environment === "enclave";
  if ((simulated(run) && enclave(theirs.run)) || (enclave(run) && simulated(theirs.run))) {
    return "one ran in an enclave, the other is simulated: an ordinary process";
  }
  const stated = differ.find(
    ({ name, ours, theirs: other }) => !CIRCUMSTANCES.has(name) && ours !== null && other !== null,
  );
  return stated ? `${stated.name}: ours ${stated.ours}, theirs ${stated.theirs}` : null;
}
