import { type Scale, short } from "../figures";
import type { Run } from "../runs";
import { axisOf } from "./axes";
import type { Drawing } from "./ChartFrame";
import type { Key } from "./Legend";
import type { Look } from "./look";
import { categoriesOf, type Plot, pointOf } from "./plot";
import "../../../ui/reading.css";
import "./reading.css";
import { Rows } from "./Rows";
import { Swatch } from "./Swatch";
import { type Timeline, timelineOf } from "./timeline";
import { useNarrow } from "./useNarrow";

const BAR = 20;
const BETWEEN = "Between the stages";

/**
 * One bar per run, divided into stages. `whole` is the category of the total; its remainder is drawn as a further part, "Between
 * the stages". Stages that overlap are in lanes of a bar that ends at the total.
 */
export function Stack({ drawing, whole }: { drawing: Drawing; whole: string }) {
  const narrow = useNarrow();
  const { plot, series, scale } = drawing;
  const stages = stagesOf(plot, whole);
  const rows = series.map(({ run }) => {
    const timeline = timelineIn(plot, run, stages, whole);
    const lengths = new Map(timeline.spans.map(({ index, start, end }) => [index, end - start]));
    return { label: run.title, timeline, parts: stages.map((_, index) => lengths.get(index) ?? 0) };
  });
  const factor = scale.factor;
  return (
    <Rows
      title={plot.title}
      rows={rows}
      axis={axisOf(rows.map(({ timeline }) => timeline.end / factor))}
      log={false}
      step={44}
      thickness={BAR}
      most={narrow ? 104 : 220}
      reading={(index) => {
        const row = rows[index];
        return row ? <Parts {...row} names={stages} whole={whole} scale={scale} /> : null;
      }}
      marks={(row, top, place) => {
        const { timeline } = rows[row] ?? {};
        if (!timeline) return null;
        const { spans, lanes, end, rest } = timeline;
        const height = (BAR - (lanes - 1)) / lanes;
        const between = { index: stages.length, start: end - rest, end, lane: 0 };
        return (
          <>
            {[...spans, between].map(({ index, start, end, lane }) => (
              <rect
                key={index}
                className="mark"
                x={place(start / factor)}
                y={top + lane * (height + 1)}
                width={place(end / factor) - place(start / factor)}
                height={height}
                fill={stageLook(index).colour}
              />
            ))}
            <path
              className="mark"
              d={`M${place(end / factor)} ${top - 3}v${BAR + 6}`}
              stroke="var(--ink)"
              strokeWidth={1.5}
            />
          </>
        );
      }}
    />
  );
}

function timelineIn(plot: Plot, run: Run, stages: readonly string[], whole: string): Timeline {
  const lengthOf = (category: string) => pointOf(plot, run, category)?.value ?? 0;
  return timelineOf(stages.map(lengthOf), lengthOf(whole));
}

/** Whether stages of any run overlap. */
export function hasOverlap(plot: Plot, whole: string, runs: readonly Run[]): boolean {
  const stages = stagesOf(plot, whole);
  return runs.some((run) => timelineIn(plot, run, stages, whole).lanes > 1);
}

function stagesOf(plot: Plot, whole: string): readonly string[] {
  return categoriesOf(plot).filter((category) => category !== whole);
}

/** Legend of the stages. */
export function stageKeys(plot: Plot, whole: string): readonly Key[] {
  return [...stagesOf(plot, whole), BETWEEN].map((text, index) => ({
    text,
    look: stageLook(index),
  }));
}

interface PartsProps {
  readonly label: string;
  readonly names: readonly string[];
  readonly whole: string;
  /** Base units, as the timeline. */
  readonly parts: readonly number[];
  readonly timeline: Timeline;
  readonly scale: Scale;
}

function Parts({ label, names, whole, parts, timeline: { lanes, rest, end }, scale }: PartsProps) {
  const rows = lanes > 1 ? names : [...names, BETWEEN];
  return (
    <div className="reading">
      <p className="reading-head">{label}</p>
      <table>
        <tbody>
          {rows.map((name, index) => (
            <tr key={name}>
              <th scope="row">
                <Swatch look={stageLook(index)} shape="bar" />
                {name}
              </th>
              <td className="number">
                {short((parts[index] ?? rest) / scale.factor)} {scale.name}
              </td>
            </tr>
          ))}
          <tr>
            <th scope="row">
              {whole}
              {lanes > 1 && ", stages overlap"}
            </th>
            <td className="number">
              {short(end / scale.factor)} {scale.name}
            </td>
          </tr>
        </tbody>
      </table>
    </div>
  );
}

/** Stages use the series' colours from the second on: the accent marks our runs. */
function stageLook(index: number): Look {
  const colour = index >= 7 ? "var(--unknown-mark)" : `var(--chart-${index + 2})`;
  return { colour, hollow: false, cuts: 0 };
}
