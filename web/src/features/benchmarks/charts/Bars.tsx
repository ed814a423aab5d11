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
  const longest = Math.max(...rows.map(({ category }) => category.length));
  const room = Math.min(narrow ? 104 : 220, 14 + longest * 6.6);
  return (
    <ResponsiveContainer width="100%" height={height}>
      <BarChart
        data={rows}
        layout="vertical"
        margin={{ top: 4, right: 24, bottom: 4, left: 0 }}
        barGap={2}
        title={plot.title}
      >
        <CartesianGrid horizontal={false} stroke={GRID} />
        <XAxis
          type="number"
          scale={log ? "log" : "linear"}
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
          dataKey="category"
          width={room}
          tick={TICK}
          axisLine={LINE}
          tickLine={false}
          interval={0}
        />
        <Tooltip
          isAnimationActive={false}
          cursor={{ fill: "var(--surface-sunken)" }}
          content={({ label }) => <Reading drawing={drawing} category={label as string | undefined} />}
        />
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
      </BarChart>
    </ResponsiveContainer>
  );
}

function Rows({ drawing }: { drawing: Drawing }) {
  const narrow = useNarrow();
  const { plot, series, scale, log } = drawing;
  const looks = new Map(series.map((one) => [one.run.key, one]));
  const rows = categoriesOf(plot)
    .flatMap((category) => series.flatMap(({ run }) => pointOf(plot, run, category) ?? []))
    .filter(({ value }) => !log || value > 0)
    .map(({ run, category, value }, index) => ({
      index,
      category,
      value: value / scale.factor,
      look: looks.get(run.key),
    }));
  const longest = Math.max(...rows.map(({ category }) => category.length));
  const room = Math.min(narrow ? 132 : 260, 14 + longest * 6.6);
  const category = (index: unknown) => rows[Number(index)]?.category;
  return (
    <ResponsiveContainer width="100%" height={rows.length * (narrow ? 34 : 22) + 34}>
      <BarChart
        data={rows}
        layout="vertical"
        margin={{ top: 4, right: 24, bottom: 4, left: 0 }}
        title={plot.title}
      >
        <CartesianGrid horizontal={false} stroke={GRID} />
        <XAxis
          type="number"
          scale={log ? "log" : "linear"}
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
          width={room}
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
        <Bar dataKey="value" name={plot.title} barSize={BAR} strokeWidth={1.5} isAnimationActive={false}>
          {rows.map(({ index, look }) => (
            <Cell
              key={index}
              fill={look?.colour ?? TICK.fill}
              fillOpacity={look?.hollow ? 0.12 : 1}
              stroke={look?.colour ?? TICK.fill}
            />
          ))}
        </Bar>
      </BarChart>
    </ResponsiveContainer>
  );
}
