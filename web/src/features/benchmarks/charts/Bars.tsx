import { useState } from "react";
import { Button } from "../../../ui/Button";
import { below, parted } from "../group";
import { axisOf } from "./axes";
import type { Drawing } from "./ChartFrame";
import { categoriesOf, headingsOf, pointOf, type Series, valuesOf } from "./plot";
import { Reading } from "./Reading";
import { Rows } from "./Rows";
import { BarMark, DotMark } from "./Swatch";
import { useNarrow } from "./useNarrow";

const BAR = 12;
/** From one bar to the next. */
const STEP = BAR + 2;
const GAP = 18;

interface Row {
  /** What is written beside it: nothing where the row above is of the same category. */
  readonly label: string;
  /** Of the rows from here on. */
  readonly heading: string | null;
  readonly category: string;
  /** From above; in the chart's scale. One without a value leaves its place empty. */
  readonly bars: readonly { readonly series: Series; readonly value: number | undefined }[];
}

/** More rows than this are a list that nobody compares; they are shown on demand. */
const MOST_ROWS = 40;

/** Categories down, one bar a run. Grows with what it holds instead of squeezing it. */
export function Bars({ drawing }: { drawing: Drawing }) {
  const narrow = useNarrow();
  const [whole, setWhole] = useState(false);
  const { plot, series, log } = drawing;
  // Where most runs lack most categories, groups would be mostly gaps: then each figure has a row of its own.
  const full = plot.points.length / (categoriesOf(plot).length * series.length);
  const grouped = full >= 0.55;
  const all = grouped ? groups(drawing) : singles(drawing);
  const rows = whole ? all : all.slice(0, MOST_ROWS);
  const step = grouped ? series.length * STEP + GAP : 22;
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
            // A bar says by its length how much there is, and a logarithmic axis has no beginning to measure from.
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
  if (all.length <= MOST_ROWS) return chart;
  return (
    <>
      {chart}
      <Button kind="quiet" onClick={() => setWhole(!whole)}>
        {whole ? `Show ${MOST_ROWS} rows` : `Show all ${all.length} rows`}
      </Button>
    </>
  );
}

function groups({ plot, series, scale, log }: Drawing): readonly Row[] {
  const rows = parted(categoriesOf(plot), headingsOf(plot)).flatMap(({ heading, items }) =>
    items.map((category, index) => ({
      label: below(heading, category),
      heading: index === 0 ? heading : null,
      category,
    })),
  );
  return rows.map((row) => ({
    ...row,
    bars: series.map((series) => {
      const value = pointOf(plot, series.run, row.category)?.value;
      // A logarithmic axis has no place for zero: the bar is left out, and the table has it.
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
