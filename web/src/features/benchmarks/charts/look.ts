import { createContext } from "react";
import type { Run } from "../runs";

/** How a run is drawn: in every chart, table and legend the same. */
export interface Look {
  readonly colour: string;
  /** Published figures are hollow. */
  readonly hollow: boolean;
  /** Lines along its marks: they tell apart runs that share a colour. */
  readonly cuts: number;
}

/** Place of each run among those that it has to be told from: ours among ours, others among others. */
export type Steps = ReadonlyMap<string, number>;

/** The steps of the runs that are shown. */
export const Shown = createContext<Steps>(new Map());

/** Colours beside the accent, which is ours. */
const OTHERS = 7;

/** Ours has the accent, and nothing else has it. */
export function lookOf(run: Run, steps: Steps): Look {
  const step = steps.get(run.key) ?? 0;
  const hollow = run.kind === "published";
  if (isOurs(run)) return { colour: "var(--chart-1)", hollow, cuts: step };
  return { colour: `var(--chart-${(step % OTHERS) + 2})`, hollow, cuts: Math.floor(step / OTHERS) };
}

/**
 * Steps by which the runs of each of `sets`, which are shown together, can be told apart. A run keeps the one that it has in
 * `homes`, unless one before it in the same set has it already.
 */
export function stepsOf(sets: readonly (readonly Run[])[], homes: Steps = new Map()): Steps {
  const steps = new Map<string, number>();
  const taken = (run: Run): ReadonlySet<number | undefined> => {
    const beside = sets.filter((set) => set.some(({ key }) => key === run.key)).flat();
    return new Set(beside.filter((one) => isOurs(one) === isOurs(run)).map(({ key }) => steps.get(key)));
  };
  for (const run of sets.flat()) {
    const home = homes.get(run.key);
    if (home !== undefined && !taken(run).has(home)) steps.set(run.key, home);
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
