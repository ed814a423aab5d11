import { MAX_CHOSEN, type Run, type Source } from "./runs";

/** Runs of a new file that are always shown. */
const MIN_NEW_RUNS = 2;
const MAX_NEW_RUNS = MAX_CHOSEN / 2;

/**
 * The runs to show after a file was opened: some of its runs, then the earlier ones. Published runs and ours stay for
 * comparison; peers and earlier files are dropped first.
 */
export function withNewRuns({ runs, byKey }: Source, shown: readonly Run[]): readonly Run[] {
  const others = shown.filter(({ key }) => !byKey.has(key));
  const [older, own] = [others.filter(isDropped), others.filter((run) => !isDropped(run))];
  const kept = own.filter(({ peer }) => !peer).slice(0, MAX_CHOSEN - MIN_NEW_RUNS);
  const news = runs.slice(0, Math.min(MAX_NEW_RUNS, MAX_CHOSEN - kept.length));
  const peers = own.filter(({ peer }) => peer);
  return [...news, ...kept, ...peers, ...older].slice(0, MAX_CHOSEN);
}

function isDropped({ kind }: Run): boolean {
  return kind === "dropped";
}
