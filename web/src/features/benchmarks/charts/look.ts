import { createContext } from "react";
import type { Run } from "../runs";

/** Appearance of a run, the same in every chart, table and legend. */
export interface Look {
  readonly colour: string;
  /** Published figures are hollow. */
  readonly hollow: boolean;
  /** Number of lines along the marks, which distinguish runs of the same colour. */
  readonly cuts: number;
}

/** Step of each run, by key: distinguishes ours among ours, and others among others. */
export type Steps = ReadonlyMap<string, number>;

/** The steps of the displayed runs. */
export const StepsContext = createContext<Steps>(new Map());

/** Number of colours other than the accent, which marks our runs. */
const OTHER_COLOURS = 7;

/** Only our runs have the accent. */
export function lookOf(run: Run, steps: Steps): Look {
  const step = steps.get(run.key) ?? 0;
  const hollow = run.kind === "published";
  if (isOurs(run)) return { colour: "var(--chart-1)", hollow, cuts: step };
  return {
    colour: `var(--chart-${(step % OTHER_COLOURS) + 2})`,
    hollow,
    cuts: Math.floor(step / OTHER_COLOURS),
  };
}

/**
 * Assigns steps that distinguish the runs within each of `sets`, which are shown together. A run keeps its step of `preferred`,
 * unless an earlier run of the same set has it.
 */
export function stepsOf(sets: readonly (readonly Run[])[], preferred: Steps = new Map()): Steps {
  const steps = new Map<string, number>();
  const taken = (run: Run): ReadonlySet<number | undefined> => {
    const together = sets.filter((set) => set.some(({ key }) => key === run.key)).flat();
    return new Set(together.filter((one) => isOurs(one) === isOurs(run)).map(({ key }) => steps.get(key)));
  };
  for (const run of sets.flat()) {
    const step = preferred.get(run.key);
    if (step !== undefined && !taken(run).has(step)) steps.set(run.key, step);
  }
  for (const run of sets.flat()) {
    if (steps.has(run.key)) continue;
    const others = taken(run);
    let step = 0;
    while (others.has(step)) step += 1;
    steps.set(run.key, step);
  }
  return steps;
}

function isOurs({ kind, peer }: Run): boolean {
  return kind === "ours" && !peer;
}
