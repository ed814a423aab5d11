import { base, numeric } from "./figures";
import { groupBy } from "./group";
import { machineTitle } from "./machines";
import { Ratio } from "./ratio";
import { dateOf, machineKey, machineOf, type Run } from "./runs";
import { figureWith, pairsOf } from "./verdict";

/** Latency inside a published enclave against outside, on one machine. */
export interface PublishedCost {
  readonly inside: Run;
  readonly ratio: Ratio;
}

/** Overhead of our sealed path against the bare engine, as a record of ours states it. */
export interface OwnCost {
  readonly run: Run;
  /** In per cent. */
  readonly percent: number;
  /** Half the 95 % interval, in points; null if no interval is stated. */
  readonly noise: number | null;
  /** The same for the shortest text measured, where the fixed cost weighs most. */
  readonly shortest: { readonly tokens: number; readonly percent: number } | null;
}

/** The answer to the page's title. Newest first in each list. */
export interface PrivacyCost {
  readonly published: readonly PublishedCost[];
  readonly simulated: readonly OwnCost[];
  readonly enclave: readonly OwnCost[];
}

/** Padded length at which the reports state their latency. */
const TOKENS = 128;

/** Computes the cost of privacy from the records; opened files take no part. */
export function privacyCost(all: readonly Run[]): PrivacyCost {
  const own = all
    .filter(({ kind, peer }) => kind === "ours" && !peer)
    .flatMap((run) => ownCost(run) ?? [])
    .toSorted((a, b) => timeOf(b.run).localeCompare(timeOf(a.run)));
  const within = (environment: Run["record"]["environment"]) =>
    own.filter(({ run }) => run.record.environment === environment);
  return {
    published: publishedCosts(all)
      .filter(({ inside }) => !isSingle(inside))
      .toReversed(),
    simulated: within("simulated"),
    enclave: within("enclave"),
  };
}

/** A run in time order, with the change from the run before it on the same machine. */
export interface Step<Cost> {
  readonly cost: Cost;
  readonly when: string;
  readonly machine: string;
  /** In points; null for the first run of a machine. */
  readonly change: number | null;
}

/** Published enclaves, oldest first. A report's single runs replace its mean. */
export function publishedTrend(all: readonly Run[]): readonly Step<PublishedCost>[] {
  const costs = publishedCosts(all);
  const repeated = new Set(costs.flatMap(({ inside }) => (isSingle(inside) ? [inside.record.commit] : [])));
  const shown = costs.filter(({ inside }) => isSingle(inside) || !repeated.has(inside.record.commit));
  return stepsOf(
    shown,
    ({ inside }) => inside,
    ({ inside }) => machineOf(inside.record) ?? "not stated",
    ({ ratio }) => ratio.percent,
  );
}

/** Our runs, oldest first. */
export function ownTrend({ simulated, enclave }: PrivacyCost): readonly Step<OwnCost>[] {
  return stepsOf(
    [...simulated, ...enclave].toSorted((a, b) => timeOf(a.run).localeCompare(timeOf(b.run))),
    ({ run }) => run,
    ({ run }) => machineTitle(run),
    ({ percent }) => percent,
  );
}

function stepsOf<Cost>(
  costs: readonly Cost[],
  runOf: (cost: Cost) => Run,
  machine: (cost: Cost) => string,
  percentOf: (cost: Cost) => number,
): readonly Step<Cost>[] {
  const before = new Map<Cost, Cost | undefined>();
  for (const group of groupBy(costs, (cost) => machineKey(runOf(cost).record)).values())
    for (const [index, cost] of group.entries()) before.set(cost, group[index - 1]);
  return costs.map((cost) => {
    const earlier = before.get(cost);
    const change = earlier === undefined ? null : percentOf(cost) - percentOf(earlier);
    return { cost, when: timeOf(runOf(cost)), machine: machine(cost), change };
  });
}

/** Oldest first. */
function publishedCosts(all: readonly Run[]): readonly PublishedCost[] {
  return pairsOf(all.filter(({ kind }) => kind === "published"))
    .flatMap(({ outside, inside }) => {
      const [without, within] = [outside, inside].map((run) => run && figureWith(run, "inference.latency"));
      const ratio = without && within && Ratio.of(without, within);
      return ratio ? [{ inside, ratio }] : [];
    })
    .toSorted((a, b) => timeOf(a.inside).localeCompare(timeOf(b.inside)));
}

function ownCost(run: Run): OwnCost | undefined {
  const stated = run.figures
    .filter(
      ({ subject, parameters }) =>
        subject === "overhead" &&
        parameters?.of === "sealed request over bare engine" &&
        parameters.path === "sealed",
    )
    .flatMap((figure) => {
      const [tokens, percent] = [numeric(figure, "tokens"), base(figure, "mean")];
      return tokens === undefined || percent === undefined ? [] : [{ figure, tokens, percent }];
    })
    .toSorted((a, b) => a.tokens - b.tokens);
  const found = stated.find(({ tokens }) => tokens === TOKENS);
  if (!found) return undefined;
  const { ci95 } = found.figure.statistics ?? {};
  const [shortest] = stated;
  return {
    run,
    percent: found.percent,
    noise: ci95 ? (ci95[1] - ci95[0]) / 2 : null,
    shortest: shortest && shortest !== found ? shortest : null,
  };
}

/** Time in the key of a report's single run. */
const SINGLE = /\/run-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)/;

function isSingle({ key }: Run): boolean {
  return SINGLE.test(key);
}

/** Day of a run, with the time of a single run: `2026-02-04 21:53`. */
function timeOf({ key, record }: Run): string {
  const [, year, month, day, hour, minute] = SINGLE.exec(key) ?? [];
  return year === undefined ? (dateOf(record) ?? "") : `${year}-${month}-${day} ${hour}:${minute}`;
}
