import type { Figure } from "./comparability";
import { base, numeric } from "./figures";
import { Ratio } from "./ratio";
import type { Measurement } from "./record.gen";
import { dateOf, machineKey, type Run } from "./runs";

/** One implementation in a machine's chart. */
export interface Implementation {
  readonly name: string;
  readonly run: Run;
  readonly figure: Measurement;
  readonly ms: number;
  /** Ratio to ours; null for ours, and if the machines differ. */
  readonly ratio: Ratio | null;
}

/** Our latency and that of the peers in the same run, on one machine. */
export interface Machine {
  readonly title: string;
  readonly date: string | undefined;
  readonly simulated: boolean;
  readonly threads: number;
  readonly ours: Implementation;
  readonly peers: readonly Implementation[];
  /** Published figures of another machine, which give no ratio. */
  readonly elsewhere: readonly Implementation[];
  readonly newest: boolean;
}

const TOKENS = 128;

export const PEER_NAMES: Readonly<Record<string, string>> = {
  onnxruntime: "ONNX Runtime",
  "sentence-transformers": "sentence-transformers",
  candle: "Candle",
  "onnxruntime-int8": "ONNX Runtime, int8",
};

/** Peers that the overview shows, in this order. */
const SHOWN_PEERS = ["onnxruntime", "sentence-transformers"];

/** Complete runs of each machine, newest first. */
export function machines(all: readonly Run[]): readonly Machine[] {
  const whole = all
    .filter(({ kind, peer }) => kind === "ours" && !peer)
    .flatMap((run) => machineOfRun(run, all) ?? [])
    .sort((a, b) => (b.date ?? "").localeCompare(a.date ?? ""));
  const seen = new Set<string>();
  return whole.map((machine) => {
    const key = machineKey(machine.ours.run.record);
    const newest = !seen.has(key);
    seen.add(key);
    return { ...machine, newest };
  });
}

function machineOfRun(run: Run, all: readonly Run[]): Machine | null {
  const own = run.figures
    .filter((figure) => figure.subject === "peers.latency" && fits(figure) && figure.turns !== undefined)
    .toSorted((a, b) => (numeric(b, "threads") ?? 0) - (numeric(a, "threads") ?? 0))[0];
  if (!own) return null;
  const ours = contender("Clearseal", { run, figure: own }, null);
  if (!ours) return null;
  const peers = SHOWN_PEERS.flatMap((name) => {
    const peer = all.find(({ key }) => key === `${run.key}/${name}`);
    const figure = peer?.figures.find(({ turns }) => turns?.id === own.turns?.id);
    return (peer && figure && contender(PEER_NAMES[name] ?? name, { run: peer, figure }, ours)) || [];
  });
  const elsewhere = all
    .filter(({ key }) => key.endsWith("b00bab1-enclave"))
    .flatMap((published) => {
      const figure = published.figures.find(
        ({ subject, parameters }) => subject === "inference.latency" && parameters?.assumed === undefined,
      );
      return (figure && contender("Published enclave", { run: published, figure }, ours)) || [];
    });
  return {
    title: machineTitle(run),
    date: dateOf(run.record),
    simulated: run.record.environment === "simulated",
    threads: numeric(own, "threads") ?? 1,
    ours,
    peers,
    elsewhere,
    newest: true,
  };
}

function fits(figure: Measurement): boolean {
  return numeric(figure, "tokens") === TOKENS && numeric(figure, "batch") === 1;
}

function contender(name: string, one: Figure, ours: Implementation | null): Implementation | null {
  const ms = base(one.figure, "mean");
  if (ms === undefined) return null;
  return { name, ...one, ms, ratio: ours && Ratio.of(ours, one) };
}

/** Name of the machine of a run of ours, and of its peers: processor and instruction set. */
export function machineTitle(run: Run): string {
  return [processorOf(run), instructions(run)].filter(Boolean).join(", ");
}

/** The processor's name, without "(R)" and "Processor". */
export function processorOf({ record }: Run): string | undefined {
  return record.machine?.cpu?.replace(/\(R\)| Processor/g, "");
}

/** Instruction set of our engine in the run's record: `AVX2`. */
export function instructions({ record }: Run): string | undefined {
  for (const { parameters } of record.measurements ?? []) {
    const found = /^fused-f32-(\w+)$/.exec(String(parameters?.engine ?? ""))?.[1];
    if (found) return found.toUpperCase().replace("AVX512", "AVX-512");
  }
  return undefined;
}
