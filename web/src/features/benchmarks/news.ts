import { MOST_CHOSEN, type Run, type Source } from "./runs";

/** Runs of a new file that are shown whatever else is. */
const LEAST_NEWS = 2;
const MOST_NEWS = MOST_CHOSEN / 2;

/**
 * What is shown once a file was opened: some of its runs, then what was shown before. Published runs and ours stay, because
 * they are what a file is compared with; peers and files that were opened earlier make room.
 */
export function withNews({ runs, byKey }: Source, shown: readonly Run[]): readonly Run[] {
  const others = shown.filter(({ key }) => !byKey.has(key));
  const [older, own] = [others.filter(isDropped), others.filter((run) => !isDropped(run))];
  const kept = own.filter(({ peer }) => !peer).slice(0, MOST_CHOSEN - LEAST_NEWS);
  const news = runs.slice(0, Math.min(MOST_NEWS, MOST_CHOSEN - kept.length));
  const peers = own.filter(({ peer }) => peer);
  return [...news, ...kept, ...peers, ...older].slice(0, MOST_CHOSEN);
}

function isDropped({ kind }: Run): boolean {
  return kind === "dropped";
}
