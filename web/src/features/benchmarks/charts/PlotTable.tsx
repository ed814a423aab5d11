import "../../../ui/table.css";
import { type Scale, short } from "../figures";
import { withoutHeading } from "../group";
import "../parts.css";
import { TableParts } from "../TableParts";
import { categoriesOf, headingsOf, type Plot, pointOf, type Series } from "./plot";
import { Swatch } from "./Swatch";

interface PlotTableProps {
  readonly plot: Plot;
  readonly series: readonly Series[];
  readonly scale: Scale;
}

/** The figures of a chart as a table. */
export function PlotTable({ plot, series, scale }: PlotTableProps) {
  const unit = scale.name && `, ${scale.name}`;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section className="table-scroll" tabIndex={0} aria-label={`${plot.title} as a table`}>
      <table className="table table-cards">
        <caption className="visually-hidden">{plot.title}</caption>
        <thead>
          <tr>
            <th scope="col">{plot.axis}</th>
            {series.map(({ run, look }) => (
              <th key={run.key} scope="col" className="end">
                <Swatch look={look} shape="bar" /> {run.title}
                {unit}
              </th>
            ))}
          </tr>
        </thead>
        <TableParts items={categoriesOf(plot)} headingOf={headingsOf(plot)} columns={series.length + 1}>
          {(category, heading) => (
            <tr key={category}>
              <th scope="row">{withoutHeading(heading, category) || category}</th>
              {series.map(({ run }) => {
                const point = pointOf(plot, run, category);
                return (
                  <td key={run.key} className="end number" data-label={`${run.title}${unit}`}>
                    {point ? short(point.value / scale.factor) : "—"}
                  </td>
                );
              })}
            </tr>
          )}
        </TableParts>
      </table>
    </section>
  );
}
