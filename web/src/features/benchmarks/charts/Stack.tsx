import { short } from "../figures";
import { axisOf } from "./axes";
import type { Drawing } from "./ChartFrame";
import type { Key } from "./Legend";
import type { Look } from "./look";
import { categoriesOf, type Plot, pointOf } from "./plot";
import "../../../ui/reading.css";
import "./reading.css";
import { Rows } from "./Rows";
import { Swatch } from "./Swatch";
import { useNarrow } from "./useNarrow";

const BAR = 20;
const BETWEEN = "Between the stages";

/**
 * One bar per run, divided into stages. `whole` is the category of the total; its remainder is drawn as a further part, "Between
 * the stages".
 */
export function Stack({ drawing, whole }: { drawing: Drawing; whole: string }) {
  const narrow = useNarrow();
  const { plot, series, scale } = drawing;
  const stages = stagesOf(plot, whole);
  const rows = series.map(({ run }) => {
    const parts = stages.map((stage) => (pointOf(plot, run, stage)?.value ?? 0) / scale.factor);
    const sum = parts.reduce((total, part) => total + part, 0);
    const total = (pointOf(plot, run, whole)?.value ?? 0) / scale.factor;
    return { label: run.title, parts: [...parts, Math.max(0, total - sum)], total: Math.max(total, sum) };
  });
  const names = [...stages, BETWEEN];
  return (
    <Rows
      title={plot.title}
      rows={rows}
      axis={axisOf(rows.map(({ total }) => total))}
      log={false}
      step={44}
      thickness={BAR}
      most={narrow ? 104 : 220}
      reading={(index) => {
        const row = rows[index];
        return row ? <Parts {...row} names={names} unit={scale.name} /> : null;
      }}
      marks={(row, top, place) => {
        let end = 0;
        return rows[row]?.parts.map((part, index) => {
          const start = end;
          end += part;
          return (
            <rect
              key={names[index]}
              className="mark"
              x={place(start)}
              y={top}
              width={place(end) - place(start)}
              height={BAR}
              fill={stageLook(index).colour}
            />
          );
        });
      }}
    />
  );
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
  readonly parts: readonly number[];
  readonly unit: string;
}

function Parts({ label, names, parts, unit }: PartsProps) {
  return (
    <div className="reading">
      <p className="reading-head">{label}</p>
      <table>
        <tbody>
          {names.map((name, index) => (
            <tr key={name}>
              <th scope="row">
                <Swatch look={stageLook(index)} shape="bar" />
                {name}
              </th>
              <td className="number">
                {short(parts[index] ?? 0)} {unit}
              </td>
            </tr>
          ))}
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
