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

/** Shades of the accent: each of our runs has a separate one. */
const SHADES = [
  "var(--chart-1)",
  "color-mix(in oklch, var(--chart-1) 50%, var(--ink))",
  "color-mix(in oklch, var(--chart-1) 70%, var(--surface))",
] as const;

/** Only our runs have the accent. A peer has one colour, also if several runs measured it. */
export function lookOf(run: Run, steps: Steps): Look {
  const step = steps.get(run.key) ?? 0;
  const hollow = run.kind === "published";
  if (isOurs(run)) return { colour: SHADES[step % SHADES.length] ?? SHADES[0], hollow, cuts: step };
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
  const taken = (run: Run, alike = (one: Run) => one.key === run.key): ReadonlySet<number | undefined> => {
    const together = sets.filter((set) => set.some(alike)).flat();
    return new Set(together.filter((one) => isOurs(one) === isOurs(run)).map(({ key }) => steps.get(key)));
  };
  const colours = new Map<string, number>();
  const keep = (run: Run, step: number) => {
    steps.set(run.key, step);
    if (!colours.has(lineOf(run))) colours.set(lineOf(run), step % OTHER_COLOURS);
  };
  for (const run of sets.flat()) {
    const step = preferred.get(run.key);
    if (step !== undefined && !taken(run).has(step)) keep(run, step);
  }
  for (const run of sets.flat()) {
    if (steps.has(run.key)) continue;
    const colour = colours.get(lineOf(run));
    const others = taken(run, colour === undefined ? (one) => lineOf(one) === lineOf(run) : undefined);
    let step = colour ?? 0;
    while (others.has(step)) step += colour === undefined ? 1 : OTHER_COLOURS;
    keep(run, step);
  }
  return steps;
}

/** Identifies a colour: an implementation among the peers, otherwise a run. */
function lineOf({ key, peer }: Run): string {
  return peer ? key.slice(key.lastIndexOf("/")) : key;
}

function isOurs({ kind, peer }: Run): boolean {
  return kind === "ours" && !peer;
}
