import { CartesianGrid, Line, LineChart, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import { domainOf, GRID, LINE, TICK, tick, ticksOf } from "./axes";
import type { Drawing } from "./ChartFrame";
import { Reading } from "./Reading";

interface LinesProps {
  readonly drawing: Drawing;
  /** Straight lines beside the points, by run. */
  readonly fits?: ReadonlyMap<string, { readonly intercept: number; readonly slope: number }>;
  readonly xLabel: string;
  readonly xFormat?: (x: number) => string;
  /** Places spread by powers of two or ten, as sizes and counts are. */
  readonly logX?: boolean;
}

/** A run a line over a numeric axis. Published points are hollow, ours filled. */
export function Lines({ drawing, fits, xLabel, xFormat = tick, logX = false }: LinesProps) {
  const { plot, series, scale, log } = drawing;
  const places = [...new Set(plot.points.flatMap(({ x }) => (x === undefined ? [] : [x])))].sort(
    (a, b) => a - b,
  );
  const rows = places.map((x) => ({
    x,
    values: series.map(({ run }) => {
      const value = plot.points.find((point) => point.run.key === run.key && point.x === x)?.value;
      return value === undefined || (log && value <= 0) ? null : value / scale.factor;
    }),
    fitted: series.map(({ run }) => {
      const line = fits?.get(run.key);
      const value = line && (line.intercept + line.slope * x) / scale.factor;
      return value === undefined || value < 0 ? null : value;
    }),
  }));
  const category = (x: unknown) => plot.points.find((point) => point.x === x)?.category;
  const last = places.at(-1) ?? 1;
  const xTicks = logX ? places : [0, ...places.filter((x) => x >= last / 12)];
  return (
    <ResponsiveContainer width="100%" height={320}>
      <LineChart data={rows} margin={{ top: 8, right: 24, bottom: 22, left: 0 }} title={plot.title}>
        <CartesianGrid stroke={GRID} />
        <XAxis
          type="number"
          dataKey="x"
          scale={logX ? "log" : "linear"}
          domain={logX ? [places[0] ?? 1, last] : [0, last]}
          ticks={xTicks}
          tick={TICK}
          axisLine={LINE}
          tickLine={LINE}
          tickFormatter={xFormat}
          padding={{ left: logX ? 12 : 0, right: 12 }}
          label={{ value: xLabel, position: "insideBottom", offset: -14, ...TICK }}
        />
        <YAxis
          type="number"
          scale={log ? "log" : "linear"}
          domain={domainOf(drawing)}
          ticks={ticksOf(drawing)}
          allowDataOverflow
          width={56}
          tick={TICK}
          axisLine={LINE}
          tickLine={LINE}
          tickFormatter={tick}
        />
        <Tooltip
          isAnimationActive={false}
          cursor={{ stroke: "var(--line)", strokeDasharray: "2 3" }}
          content={({ label }) => <Reading drawing={drawing} category={category(label)} />}
        />
        {fits &&
          series.map(({ run, colour }, index) => (
            <Line
              key={`${run.key} fit`}
              dataKey={({ fitted }: (typeof rows)[number]) => fitted[index]}
              name={`${run.title}, fit`}
              stroke={colour}
              strokeWidth={1}
              strokeDasharray="5 4"
              dot={false}
              activeDot={false}
              isAnimationActive={false}
            />
          ))}
        {series.map(({ run, colour, hollow }, index) => (
          <Line
            key={run.key}
            dataKey={({ values }: (typeof rows)[number]) => values[index]}
            name={run.title}
            stroke={colour}
            strokeWidth={fits ? 0 : 2}
            connectNulls
            dot={{ r: 4.5, strokeWidth: 2, stroke: colour, fill: hollow ? "var(--surface)" : colour }}
            activeDot={{ r: 6, strokeWidth: 2, stroke: colour, fill: hollow ? "var(--surface)" : colour }}
            isAnimationActive={false}
          />
        ))}
      </LineChart>
    </ResponsiveContainer>
  );
}
