import {
  CartesianGrid,
  Line,
  LineChart,
  Tooltip,
  useActiveTooltipLabel,
  useXAxisScale,
  useYAxisScale,
  XAxis,
  YAxis,
} from "recharts";
import { axisOf, GRID, LINE, NumberBelow, NumberLeft, withRoom } from "./axes";
import type { Drawing } from "./ChartFrame";
import type { Look } from "./look";
import { Picture } from "./Picture";
import { valuesOf } from "./plot";
import { Reading } from "./Reading";
import { DotMark } from "./Swatch";

interface LinesProps {
  readonly drawing: Drawing;
  /** Fitted lines by run, drawn instead of lines from point to point. */
  readonly fits?: ReadonlyMap<string, { readonly intercept: number; readonly slope: number }>;
  readonly xLabel: string;
}

const HEIGHT = 320;
const MARGIN = { top: 8, right: 24, bottom: 22, left: 0 };
const COLUMN = 56;
const LABEL = { position: "insideBottom", offset: -14, fill: "var(--ink-muted)", fontSize: 12 } as const;

/** One line per run over a numeric axis. Published points are hollow, ours are filled. */
export function Lines({ drawing, fits, xLabel }: LinesProps) {
  const { plot, series, scale } = drawing;
  const places = [...new Set(plot.points.flatMap(({ x }) => (x === undefined ? [] : [x])))].sort(
    (a, b) => a - b,
  );
  const last = places.at(-1) ?? 1;
  const across = { domain: [0, last], ticks: [0, ...places] } satisfies Parameters<typeof withRoom>[0];
  const up = axisOf(valuesOf(drawing));
  const category = (x: unknown) => plot.points.find((point) => point.x === x)?.category;
  return (
    <Picture height={HEIGHT}>
      {(width) => (
        <LineChart
          width={width}
          height={HEIGHT}
          data={places.map((x) => ({ x, start: up.domain[0] }))}
          margin={MARGIN}
          title={plot.title}
        >
          <CartesianGrid stroke={GRID} />
          <XAxis
            type="number"
            dataKey="x"
            domain={across.domain}
            ticks={withRoom(across, width - COLUMN - MARGIN.right)}
            interval={0}
            tick={NumberBelow}
            axisLine={LINE}
            tickLine={LINE}
            padding={{ right: 12 }}
            label={{ value: xLabel, ...LABEL }}
          />
          <YAxis
            type="number"
            domain={up.domain}
            ticks={up.ticks}
            interval={0}
            allowDataOverflow
            width={COLUMN}
            tick={NumberLeft}
            axisLine={LINE}
            tickLine={LINE}
          />
          <Tooltip
            isAnimationActive={false}
            cursor={{ stroke: "var(--line)", strokeDasharray: "2 3" }}
            content={({ label }) => <Reading drawing={drawing} category={category(label)} />}
          />
          {/* Recharts gets one invisible line, which pointer and arrow keys follow; see Rows. */}
          <Line dataKey="start" stroke="none" dot={false} activeDot={false} isAnimationActive={false} />
          {series.map(({ run: { key }, look }) => {
            const points = plot.points.flatMap(({ run, x, value }): Place[] =>
              run.key === key && x !== undefined ? [[x, value / scale.factor]] : [],
            );
            const fit = fits?.get(key);
            const fitted = places
              .map((x): Place => [x, fit ? (fit.intercept + fit.slope * x) / scale.factor : -1])
              .filter(([, y]) => y >= 0);
            return <Marks key={key} look={look} points={points} fitted={fits ? fitted : null} />;
          })}
        </LineChart>
      )}
    </Picture>
  );
}

/** Dashes of lines that share a hue, by {@link Look.cuts}. */
const DASHES: readonly (string | undefined)[] = [undefined, "9 3", "3 3"];

type Place = readonly [x: number, y: number];

interface MarksProps {
  readonly look: Look;
  readonly points: readonly Place[];
  readonly fitted: readonly Place[] | null;
}

/** Line and points of one run; the active point is larger. */
function Marks({ look, points, fitted }: MarksProps) {
  const [across, up] = [useXAxisScale(), useYAxisScale()];
  const active = useActiveTooltipLabel();
  if (!across || !up) return null;
  const line = (fitted ?? points).map(([x, y]) => `${across(x)},${up(y)}`);
  return (
    <>
      {line.length > 1 && (
        <path
          className="mark"
          d={`M${line.join("L")}`}
          fill="none"
          stroke={look.colour}
          strokeWidth={fitted ? 1 : 2}
          strokeDasharray={fitted ? "5 4" : DASHES[look.cuts]}
        />
      )}
      {points.map(([x, y]) => (
        <DotMark
          key={x}
          className="mark"
          look={look}
          x={across(x) ?? 0}
          y={up(y) ?? 0}
          radius={String(x) === String(active) ? 6 : 4.5}
        />
      ))}
    </>
  );
}
