import { useState } from "react";
import { Button } from "../../../ui/Button";
import { groupIfLong, withoutHeading } from "../group";
import { axisOf } from "./axes";
import type { Drawing } from "./ChartFrame";
import { categoriesOf, headingsOf, pointOf, type Series, valuesOf } from "./plot";
import { Reading } from "./Reading";
import { Rows } from "./Rows";
import { BarMark, DotMark } from "./Swatch";
import { useNarrow } from "./useNarrow";

const BAR = 12;
/** Distance between two bars. */
const STEP = BAR + 2;
const GAP = 18;

interface Row {
  /** Label; empty if the row above has the same category. */
  readonly label: string;
  /** Heading above this row; null if it does not start a group. */
  readonly heading: string | null;
  readonly category: string;
  /** From top to bottom, in the chart's scale. A bar without a value leaves a gap. */
  readonly bars: readonly { readonly series: Series; readonly value: number | undefined }[];
}

/** Further rows are shown on demand. */
const MAX_ROWS = 40;

/** Categories from top to bottom, one bar per run. The height grows with the number of bars. */
export function Bars({ drawing }: { drawing: Drawing }) {
  const narrow = useNarrow();
  const [whole, setWhole] = useState(false);
  const { plot, series, log } = drawing;
  // If most runs lack most categories, groups would be mostly gaps: then each figure has a separate row.
  const full = plot.points.length / (categoriesOf(plot).length * series.length);
  const grouped = full >= 0.55;
  const all = grouped ? groups(drawing) : singles(drawing);
  const rows = whole ? all : all.slice(0, MAX_ROWS);
  const step = grouped ? series.length * STEP + GAP : 24;
  const most = grouped ? [104, 220] : [132, 260];
  const axis = axisOf(valuesOf(drawing), log);
  const start = Math.max(0, axis.domain[0]);
  const chart = (
    <Rows
      title={plot.title}
      rows={rows}
      axis={axis}
      log={log}
      step={step}
      thickness={(grouped ? series.length : 1) * STEP}
      most={most[narrow ? 0 : 1] ?? 0}
      reading={(row) => <Reading drawing={drawing} category={rows[row]?.category} />}
      marks={(row, top, place) =>
        rows[row]?.bars.map(({ series: { run, look }, value }, index) =>
          value === undefined ? null : log ? (
            // The length of a bar is its value, and a logarithmic axis has no zero to measure from.
            <DotMark
              key={run.key}
              className="mark"
              look={look}
              x={place(value)}
              y={top + index * STEP + STEP / 2}
              radius={4.5}
            />
          ) : (
            <BarMark
              key={run.key}
              className="mark"
              look={look}
              x={Math.min(place(start), place(value))}
              y={top + index * STEP + 1}
              width={Math.abs(place(value) - place(start))}
              height={BAR}
            />
          ),
        )
      }
    />
  );
  if (all.length <= MAX_ROWS) return chart;
  return (
    <>
      {chart}
      <Button kind="quiet" onClick={() => setWhole(!whole)}>
        {whole ? `Show ${MAX_ROWS} rows` : `Show all ${all.length} rows`}
      </Button>
    </>
  );
}

function groups({ plot, series, scale, log }: Drawing): readonly Row[] {
  const rows = groupIfLong(categoriesOf(plot), headingsOf(plot)).flatMap(({ heading, items }) =>
    items.map((category, index) => ({
      label: withoutHeading(heading, category),
      heading: index === 0 ? heading : null,
      category,
    })),
  );
  return rows.map((row) => ({
    ...row,
    bars: series.map((series) => {
      const value = pointOf(plot, series.run, row.category)?.value;
      // A logarithmic axis cannot show zero: only the table has it.
      return { series, value: value === undefined || (log && value <= 0) ? undefined : value / scale.factor };
    }),
  }));
}

function singles(drawing: Drawing): readonly Row[] {
  return groups(drawing).flatMap(({ bars, ...row }) =>
    bars
      .filter(({ value }) => value !== undefined)
      .map((bar, index) => ({ ...row, ...(index > 0 && { label: "", heading: null }), bars: [bar] })),
  );
}
