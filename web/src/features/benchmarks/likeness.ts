import { bytesLabel, short } from "./figures";
import { ENVIRONMENTS, type Environment, type Measurement } from "./record.gen";
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

/** Why two records of a subject measure two things, where no parameter of theirs says so. */
type Why = string | ((ours: Figure, theirs: Figure) => string | null);

const UNLIKE: readonly (readonly [RegExp, Why])[] = [
  [
    /^stage\.(model_fetch|cold_start_total)$/,
    (_, theirs) =>
      theirs.run.record.environment === "bare_metal"
        ? "ours reads a model in the clear from its disk and checks its hashes; theirs reads an encrypted one"
        : STARTS,
  ],
  [/^stage\./, (_, theirs) => (theirs.run.record.environment === "bare_metal" ? null : STARTS)],
  [/^request\.session_setup$/, "ours makes keys; theirs attests and sets a channel up"],
  [
    /^request\.crypto/,
    "ours is the cryptography of one sealed request; theirs is what was measured around a channel that stays open",
  ],
  [
    /^cose\.(chain|full)$/,
    ({ figure: { parameters } }) =>
      parameters?.certificates === PUBLISHED_CHAIN
        ? null
        : `ours checks a chain of ${parameters?.certificates ?? "five"} certificates, theirs one of ${PUBLISHED_CHAIN}`,
  ],
  [/^memory\.peak/, "ours is an ordinary process, theirs the process of an enclave with another engine"],
  [
    /^transport\.(handshake|first_message|reconnect)/,
    "ours verifies a signature, of an endorsed key or of a document; theirs attests by a mock, or behind vsock in an enclave",
  ],
];

const STARTS =
  "ours starts processes on a running machine and reads the model from its disk; theirs boots an enclave and fetches the model from storage through the host";

/** Certificates that the reports' verification walks, which they state at one of its two figures. */
const PUBLISHED_CHAIN = 3;

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
  // Two files that name no machine may be of any two.
  const known = own.has("machine") || ours.run.from === theirs.run.from;
  const sameMachine = known && !differ.some(({ name }) => name === "machine");
  return { differ, reason, ratio: reason === null && sameMachine };
}

/** Where and with what a figure was made never makes it another figure; everything else does, once both state it. */
const CIRCUMSTANCES = new Set(["machine", "build", "environment"]);

/** Environments that hardware keeps apart from their host. */
const ISOLATED: ReadonlySet<Environment> = new Set(["enclave", "sgx", "hybrid", "confidential_vm"]);

/** What does not depend on where it is computed. */
const ANYWHERE = /^(quality\.|memory\.model_size$)/;

function unlike(ours: Figure, theirs: Figure, differ: readonly Condition[]): string | null {
  const { run, figure } = ours;
  const turns = figure.turns?.id;
  if (turns !== undefined && turns === theirs.figure.turns?.id) return null;
  const why =
    run.from === theirs.run.from ? undefined : UNLIKE.find(([subject]) => subject.test(figure.subject))?.[1];
  const known = typeof why === "function" ? why(ours, theirs) : why;
  if (known) return known;
  const stated = differ.find(
    ({ name, ours, theirs: other }) => !CIRCUMSTANCES.has(name) && ours !== null && other !== null,
  );
  if (stated) return `${stated.name}: ours ${stated.ours}, theirs ${stated.theirs}`;
  const simulated = (one: Run) => one.record.environment === "simulated";
  const isolated = (one: Run) => ISOLATED.has(one.record.environment);
  const apart = (simulated(run) && isolated(theirs.run)) || (isolated(run) && simulated(theirs.run));
  return apart && !ANYWHERE.test(figure.subject)
    ? "one ran in an enclave, the other is simulated: an ordinary process"
    : null;
}
