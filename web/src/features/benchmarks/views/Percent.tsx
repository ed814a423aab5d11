import type { Figure } from "../comparability";
import { short } from "../figures";
import type { Ratio } from "../ratio";

interface PercentProps {
  readonly ratio: Ratio;
  /** Words for less and for more, in place of a sign. */
  readonly words?: readonly [string, string];
}

/**
 * The only component that shows a ratio of two figures.
 *
 * Test hooks: `data-from` and `data-to` identify the figures, `data-ratio` their statistic, and `data-percent` is the exact value.
 * All other text with a per cent sign is inside an element with `data-quote`, which names its origin: `published`, `recorded`,
 * `guide`, `noise` or `method`.
 */
export function Percent({ ratio, words }: PercentProps) {
  const { from, to, percent, common } = ratio;
  return (
    <span
      className="number"
      data-ratio={common.statistic}
      data-from={idOf(from)}
      data-to={idOf(to)}
      data-percent={percent}
    >
      {formatRatio(ratio, words)}
    </span>
  );
}

function formatRatio({ from, percent, noise, common }: Ratio, words: PercentProps["words"]): string {
  if (words && noise !== null && Math.abs(percent) <= noise) return "within noise";
  // A relative difference of percentages would be mistaken for points.
  if (from.figure.unit === "percent") return `${signed(common.to - common.from)} points`;
  if (!words) return `${signed(percent)} %`;
  return `${short(Math.abs(percent))} % ${percent > 0 ? words[1] : words[0]}`;
}

function signed(value: number): string {
  return `${value > 0 ? "+" : ""}${short(value)}`;
}

/** Identifies a figure: key of its run, subject and parameters. */
function idOf({ run, figure }: Figure): string {
  return `${run.key}#${figure.subject}#${JSON.stringify(figure.parameters ?? {})}`;
}
