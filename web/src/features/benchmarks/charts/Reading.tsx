import { short } from "../figures";
import { ENVIRONMENTS } from "../record.gen";
import { machineOf, type Run } from "../runs";
import type { Drawing } from "./ChartFrame";
import { type Point, pointOf } from "./plot";
import "../../../ui/reading.css";
import "./reading.css";
import { Swatch } from "./Swatch";

/** Values at the position of the pointer or the arrow keys. */
export function Reading({ drawing, category }: { drawing: Drawing; category: string | undefined }) {
  if (category === undefined) return null;
  const { plot, series, scale, shape } = drawing;
  const rows = series.flatMap(({ run, look }) => {
    const point = pointOf(plot, run, category);
    return point ? [{ run, look, point }] : [];
  });
  if (rows.length === 0) return null;
  return (
    <div className="reading">
      <p className="reading-head">{category}</p>
      <table>
        <tbody>
          {rows.map(({ run, point, look }) => (
            <tr key={run.key}>
              <th scope="row">
                <Swatch look={look} shape={shape} />
                {run.title}
                <span className="muted reading-about">{aboutOf(run, point)}</span>
              </th>
              <td className="number">
                {short(point.value / scale.factor)} {scale.name}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Machine, source and note of a figure. */
function aboutOf(run: Run, { note }: Point): string {
  const parts = [
    machineOf(run.record) ?? "machine not stated",
    ENVIRONMENTS[run.record.environment],
    run.from,
  ];
  return [...parts, note].filter(Boolean).join(" · ");
}
