import { short } from "../figures";
import type { Drawing } from "./ChartFrame";
import { pointOf } from "./plot";

/** What the pointer or the arrow keys are on. */
export function Reading({ drawing, category }: { drawing: Drawing; category: string | undefined }) {
  if (category === undefined) return null;
  const { plot, series, scale } = drawing;
  const rows = series.flatMap(({ run, colour }) => {
    const point = pointOf(plot, run, category);
    return point ? [{ run, colour, point }] : [];
  });
  if (rows.length === 0) return null;
  return (
    <div className="reading">
      <p className="reading-head">{category}</p>
      <table>
        <tbody>
          {rows.map(({ run, colour, point }) => (
            <tr key={run.key}>
              <th scope="row">
                <svg width="10" height="10" aria-hidden="true">
                  <rect width="10" height="10" rx="1" fill={colour} />
                </svg>
                {run.title}
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
