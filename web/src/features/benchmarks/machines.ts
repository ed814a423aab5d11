import { base, numeric } from "./figures";
import type { Figure } from "./likeness";
import { Ratio } from "./ratio";
import type { Measurement } from "./record.gen";
import { dateOf, type Run } from "./runs";

/** One implementation of a machine's chart. */
export interface Contender {
  readonly name: string;
  readonly run: Run;
  readonly figure: Measurement;
  readonly ms: number;
  /** Of it to ours; null for ours, and where the machines differ. */
  readonly ratio: Ratio | null;
}

/** What ours and the peers of the same run take on one machine. */
export interface Machine {
  readonly title: string;
  readonly date: string | undefined;
  readonly simulated: boolean;
  readonly threads: number;
  readonly ours: Contender;
  readonly peers: readonly Contender[];
  /** Measured by others, on another machine: beside, never divided. */
  readonly elsewhere: readonly Contender[];
  readonly newest: boolean;
}

const TOKENS = 128;

export const PEER_NAMES: Readonly<Record<string, string>> = {
  onnxruntime: "ONNX Runtime",
  "sentence-transformers": "sentence-transformers",
  candle: "Candle",
  "onnxruntime-int8": "ONNX Runtime, int8",
};

/** Peers that the overview names, in this order. */
const NAMED = ["onnxruntime", "sentence-transformers"];

/** The newest whole run of each machine first; older ones follow, and are named as old. */
export function machines(all: readonly Run[]): readonly Machine[] {
  const whole = all
    .filter(({ kind, peer }) => kind === "ours" && !peer)
    .flatMap((run) => machineOfRun(run, all) ?? [])
    .sort((a, b) => (b.date ?? "").localeCompare(a.date ?? ""));
  const seen = new Set<string>();
  return whole.map((machine) => {
    const newest = !seen.has(machine.title);
    seen.add(machine.title);
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
  const peers = NAMED.flatMap((name) => {
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
  const title = [processorOf(run), instructions(run)].filter(Boolean).join(", ");
  return {
    title,
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

function contender(name: string, one: Figure, ours: Contender | null): Contender | null {
  const ms = base(one.figure, "mean");
  if (ms === undefined) return null;
  return { name, ...one, ms, ratio: ours && Ratio.of(ours, one) };
}

/** The processor's name, without the words that say nothing. */
export function processorOf({ record }: Run): string | undefined {
  return record.machine?.cpu?.replace(/\(R\)| Processor/g, "");
}

/** `AVX2`, by the engine that ran. */
export function instructions(run: Run): string | undefined {
  for (const { parameters } of run.figures) {
    const found = /^fused-f32-(\w+)$/.exec(String(parameters?.engine ?? ""))?.[1];
    if (found) return found.toUpperCase().replace("AVX512", "AVX-512");
  }
  return undefined;
}
