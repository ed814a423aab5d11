import { useContext, useMemo } from "react";
import { withDigits } from "../../../ui/format";
import "../../../ui/table.css";
import { ChartFrame } from "../charts/ChartFrame";
import { Lines } from "../charts/Lines";
import { lookOf, StepsContext } from "../charts/look";
import { Swatch } from "../charts/Swatch";
import { short } from "../figures";
import { leastSquares } from "../fit";
import "../parts.css";
import { byParameter } from "./plots";
import type { ViewProps } from "./view";

/** Latency by length. The page computes the fit from the points shown, next to the fits that the reports state. */
export function InputSize({ runs }: ViewProps) {
  const steps = useContext(StepsContext);
  const plot = useMemo(
    () =>
      byParameter("Inference by length", "scaling.latency", "tokens", "Tokens", runs, {
        label: (x) => `${x} tokens`,
      }),
    [runs],
  );
  const fits = useMemo(
    () =>
      new Map(
        runs.flatMap((run) => {
          const points = plot.points.flatMap((point) =>
            point.run.key === run.key && point.x !== undefined ? [[point.x, point.value] as const] : [],
          );
          const line = points.length > 1 ? leastSquares(points) : null;
          return line ? [[run.key, line] as const] : [];
        }),
      ),
    [plot, runs],
  );
  const stated = (key: string, subject: string) =>
    runs.find((run) => run.key === key)?.figures.find((figure) => figure.subject === subject)?.statistics
      ?.value;
  return (
    <>
      <ChartFrame
        plot={plot}
        runs={runs}
        shape="line"
        note="Dashed lines are least-squares fits. Attention grows with the square of the length, so a straight line through four points may be below zero at the left."
      >
        {(drawing) => <Lines drawing={drawing} fits={fits} xLabel="Tokens" />}
      </ChartFrame>
      {fits.size > 0 && (
        <table className="table table-cards">
          <caption className="bench-caption">Fits</caption>
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col" className="end">
                Intercept, ms
              </th>
              <th scope="col" className="end">
                Per token, ms
              </th>
              <th scope="col" className="end">
                R²
              </th>
              <th scope="col" className="end">
                As stated by its report
              </th>
            </tr>
          </thead>
          <tbody>
            {runs.flatMap((run) => {
              const line = fits.get(run.key);
              if (!line) return [];
              const [intercept, slope] = [
                stated(run.key, "scaling.intercept"),
                stated(run.key, "scaling.slope"),
              ];
              return [
                <tr key={run.key}>
                  <th scope="row">
                    <Swatch look={lookOf(run, steps)} shape="line" /> {run.title}
                  </th>
                  <td className="end number" data-label="Intercept, ms">
                    {short(line.intercept)}
                  </td>
                  <td className="end number" data-label="Per token, ms">
                    {short(line.slope)}
                  </td>
                  <td className="end number" data-label="R²">
                    {line.r2.toFixed(4)}
                  </td>
                  <td className="end number" data-label="As stated">
                    {intercept === undefined || slope === undefined
                      ? "—"
                      : `${withDigits(intercept, 3)} + ${withDigits(slope, 3)} per token`}
                  </td>
                </tr>,
              ];
            })}
          </tbody>
        </table>
      )}
    </>
  );
}
