import { short } from "../figures";
import type { Figure } from "../likeness";
import type { Ratio } from "../ratio";

interface PercentProps {
  readonly ratio: Ratio;
  /** In place of a sign: what less is called, and what more is. */
  readonly words?: readonly [string, string];
}

/**
 * The only place that writes a ratio of two figures. `data-from` and `data-to` name both, so that a reader of the document
 * finds what was divided. What else has a per cent sign stands below a `data-said`, which names whose words it is:
 * `published`, `recorded`, `guide`, `noise` or `method`.
 */
export function Percent({ ratio, words }: PercentProps) {
  const { from, to, percent, common } = ratio;
  return (
    <span
      className="number"
      data-ratio={common.statistic}
      data-from={placeOf(from)}
      data-to={placeOf(to)}
      data-percent={percent}
    >
      {said(ratio, words)}
    </span>
  );
}

function said({ from, percent, noise, common }: Ratio, words: PercentProps["words"]): string {
  if (words && noise !== null && Math.abs(percent) <= noise) return "within noise";
  // Per cent of per cent would be read as points.
  if (from.figure.unit === "percent") return `${signed(common.to - common.from)} points`;
  if (!words) return `${signed(percent)} %`;
  return `${short(Math.abs(percent))} % ${percent > 0 ? words[1] : words[0]}`;
}

function signed(value: number): string {
  return `${value > 0 ? "+" : ""}${short(value)}`;
}

/** The key of its run, its subject and its parameters: what tells it from every other figure of its file. */
function placeOf({ run, figure }: Figure): string {
  return `${run.key}#${figure.subject}#${JSON.stringify(figure.parameters ?? {})}`;
}
