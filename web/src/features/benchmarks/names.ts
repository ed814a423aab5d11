import { instructions, PEER_NAMES, processorOf } from "./machines";
import { dateOf, type Run } from "./runs";

/** Name of a run: implementation, machine and date. Published runs and files keep their titles. */
export function nameOf(run: Run): string {
  if (run.kind !== "ours") return run.title;
  const who = run.peer ? (PEER_NAMES[run.key.slice(run.key.lastIndexOf("/") + 1)] ?? run.title) : "Clearseal";
  // Two machines may have the same processor's name.
  const what = instructions(run) ?? run.record.title?.split(", ")[1];
  const where = !run.peer && run.record.environment === "simulated" ? "simulated" : undefined;
  return [who, processorOf(run), what, where, dateOf(run.record)].filter(Boolean).join(", ");
}

/** Heading of a run in a list: ours together with its peers; others by report or file. */
export function headingOf(run: Run): string {
  if (run.kind !== "ours") return run.from;
  const built = run.record.title?.split(", ")[1];
  return ["Ours and its peers", processorOf(run), built, dateOf(run.record)].filter(Boolean).join(", ");
}

/** Ours and ONNX Runtime of the newest run with both, measured in turns on one machine. */
export function firstPair(all: readonly Run[]): readonly [Run, Run] | readonly [undefined, undefined] {
  const pairs = all
    .filter(({ kind, peer }) => kind === "ours" && !peer)
    .flatMap((own) => {
      const peer = all.find(({ key }) => key === `${own.key}/onnxruntime`);
      return peer ? [[own, peer] as const] : [];
    })
    .toSorted(([a], [b]) => (dateOf(b.record) ?? "").localeCompare(dateOf(a.record) ?? ""));
  return pairs[0] ?? [undefined, undefined];
}

/** Figures of a complete run; a run of a single benchmark has fewer. */
const COMPLETE_RUN_FIGURES = 100;

/** Our newest complete run. */
export function newestOf(runs: readonly Run[]): Run | undefined {
  return runs
    .filter(({ kind, peer, figures }) => kind === "ours" && !peer && figures.length >= COMPLETE_RUN_FIGURES)
    .toSorted((a, b) => (dateOf(b.record) ?? "").localeCompare(dateOf(a.record) ?? ""))[0];
}
