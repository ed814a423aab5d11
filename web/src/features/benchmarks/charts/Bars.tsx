import type { ReactNode } from "react";
import { Bar, BarChart, CartesianGrid, Cell, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import { domainOf, GRID, LINE, TICK, tick, ticksOf } from "./axes";
import type { Drawing } from "./ChartFrame";
import { categoriesOf, pointOf } from "./plot";
import { Reading } from "./Reading";
import { useNarrow } from "./useNarrow";

const BAR = 12;
const GAP = 18;

/** Categories down, one bar a run. Grows with what it holds instead of squeezing it. */
export function Bars({ drawing }: { drawing: Drawing }) {
  const { plot, series } = drawing;
  // Where most runs lack most categories, groups would be mostly gaps: then each figure has a row of its own.
  const full = plot.points.length / (categoriesOf(plot).length * series.length);
  return full < 0.55 ? <Rows drawing={drawing} /> : <Groups drawing={drawing} />;
}

function Groups({ drawing }: { drawing: Drawing }) {
  const narrow = useNarrow();
  const { plot, series, scale, log } = drawing;
  const rows = categoriesOf(plot).map((category) => {
    const values = series.map(({ run }) => {
      const value = pointOf(plot, run, category)?.value;
      // A logarithmic axis has no place for zero: the bar is left out, and the table has it.
      return value === undefined || (log && value <= 0) ? undefined : value / scale.factor;
    });
    return { category, values };
  });
  const height = rows.length * (series.length * (BAR + 2) + GAP) + 34;
  return (
    <Frame drawing={drawing} rows={rows} height={height} most={narrow ? 104 : 220}>
      {series.map(({ run, colour, hollow }, index) => (
        <Bar
          key={run.key}
          dataKey={({ values }: (typeof rows)[number]) => values[index]}
          name={run.title}
          barSize={BAR}
          fill={colour}
          fillOpacity={hollow ? 0.12 : 1}
          stroke={colour}
          strokeWidth={1.5}
          isAnimationActive={false}
        />
      ))}
    </Frame>
  );
}

function Rows({ drawing }: { drawing: Drawing }) {
  const narrow = useNarrow();
  const { plot, series, scale, log } = drawing;
  const looks = new Map(series.map((one) => [one.run.key, one]));
  const rows = categoriesOf(plot)
    .flatMap((category) => series.flatMap(({ run }) => pointOf(plot, run, category) ?? []))
    .filter(({ value }) => !log || value > 0)
    .map(({ run, category, value }) => ({
      category,
      value: value / scale.factor,
      look: looks.get(run.key),
    }));
  return (
    <Frame
      drawing={drawing}
      rows={rows}
      height={rows.length * (narrow ? 34 : 22) + 34}
      most={narrow ? 132 : 260}
    >
      <Bar dataKey="value" name={plot.title} barSize={BAR} strokeWidth={1.5} isAnimationActive={false}>
        {rows.map(({ look }, index) => (
          <Cell
            // biome-ignore lint/suspicious/noArrayIndexKey: a row is its place
            key={index}
            fill={look?.colour ?? TICK.fill}
            fillOpacity={look?.hollow ? 0.12 : 1}
            stroke={look?.colour ?? TICK.fill}
          />
        ))}
      </Bar>
    </Frame>
  );
}

interface FrameProps {
  readonly drawing: Drawing;
  /** Down the chart; two may have one category. */
  readonly rows: readonly { readonly category: string }[];
  readonly height: number;
  /** Widest that the categories' column becomes, in pixels. */
  readonly most: number;
  readonly children: ReactNode;
}

/** Axes, grid and reading of a chart whose rows go down and whose figures go across. */
function Frame({ drawing, rows, height, most, children }: FrameProps) {
  const longest = Math.max(...rows.map(({ category }) => category.length));
  const category = (index: unknown) => rows[Number(index)]?.category;
  return (
    <ResponsiveContainer width="100%" height={height}>
      <BarChart
        data={rows.map((row, index) => ({ ...row, index }))}
        layout="vertical"
        margin={{ top: 4, right: 24, bottom: 4, left: 0 }}
        barGap={2}
        title={drawing.plot.title}
      >
        <CartesianGrid horizontal={false} stroke={GRID} />
        <XAxis
          type="number"
          scale={drawing.log ? "log" : "linear"}
          domain={domainOf(drawing)}
          ticks={ticksOf(drawing)}
          allowDataOverflow
          tick={TICK}
          axisLine={LINE}
          tickLine={LINE}
          tickFormatter={tick}
        />
        <YAxis
          type="category"
          dataKey="index"
          width={Math.min(most, 14 + longest * 6.6)}
          tick={TICK}
          axisLine={LINE}
          tickLine={false}
          interval={0}
          tickFormatter={(index: number) => category(index) ?? ""}
        />
        <Tooltip
          isAnimationActive={false}
          cursor={{ fill: "var(--surface-sunken)" }}
          content={({ label }) => <Reading drawing={drawing} category={category(label)} />}
        />
        {children}
      </BarChart>
    </ResponsiveContainer>
  );
}
