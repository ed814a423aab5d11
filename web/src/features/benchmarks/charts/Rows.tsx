import type { ReactNode } from "react";
import {
  Bar,
  BarChart,
  type BarShapeProps,
  CartesianGrid,
  Tooltip,
  useXAxisScale,
  XAxis,
  YAxis,
  type YAxisTickContentProps,
} from "recharts";
import { type Axis, GRID, LEADING, LINE, NumberBelow, WordsLeft, withRoom } from "./axes";
import { Picture } from "./Picture";
import { lines, widthOf } from "./words";

interface RowsProps {
  readonly title: string;
  /** Down the chart; two may have one label. A heading stands above the label. */
  readonly rows: readonly { readonly label: string; readonly heading?: string | null }[];
  readonly axis: Axis;
  readonly log: boolean;
  /** From one row to the next, in pixels; more where a label needs it. */
  readonly step: number;
  /** Of a row's marks together, in pixels. */
  readonly thickness: number;
  /** Widest that the labels' column becomes, in pixels. */
  readonly most: number;
  /** What the pointer or the arrow keys find at a row. */
  readonly reading: (row: number) => ReactNode;
  /** Draws a row's marks below `top`; `place` is where a value is. */
  readonly marks: (row: number, top: number, place: (value: number) => number) => ReactNode;
}

/** Of the labels' column, for the axis and what stands between. */
const SPARE = 12;
/** Of the numbers below the axis, and the margins. */
const BELOW = 34;
const MARGIN = { top: 4, right: 24, bottom: 4, left: 0 };

/**
 * Axes, grid and reading of a chart whose rows go down and whose figures go across.
 *
 * Recharts knows one series, however many runs there are, and one number a row: each series costs it milliseconds, and it
 * copies and freezes whatever it is given.
 */
export function Rows({ title, rows, axis, log, step, thickness, most, reading, marks }: RowsProps) {
  const widest = (texts: readonly string[]) => Math.ceil(Math.max(...texts.map(widthOf))) + SPARE;
  const names = rows.flatMap(({ label, heading }) => [label, heading ?? ""]);
  // A label breaks between its words alone, so the longest word has room.
  const column = Math.max(Math.min(most, widest(names)), widest(names.flatMap((name) => name.split(" "))));
  const broken = (text: string) => (text === "" ? [] : lines(text, column - SPARE));
  const labels = rows.map(({ label, heading }) => ({ heading: broken(heading ?? ""), words: broken(label) }));
  const tallest = Math.max(...labels.map(({ heading, words }) => heading.length + words.length)) * LEADING;
  const height = rows.length * Math.max(step, tallest + 6) + BELOW;
  const data = rows.map((_, index) => ({ index, start: Math.max(0, axis.domain[0]) }));
  return (
    <Picture height={height}>
      {(width) => (
        <BarChart width={width} height={height} data={data} layout="vertical" margin={MARGIN} title={title}>
          <CartesianGrid horizontal={false} stroke={GRID} />
          <XAxis
            type="number"
            scale={log ? "log" : "linear"}
            domain={axis.domain}
            ticks={withRoom(axis, width - column - MARGIN.right, log)}
            interval={0}
            allowDataOverflow
            tick={NumberBelow}
            axisLine={LINE}
            tickLine={LINE}
          />
          <YAxis
            type="category"
            dataKey="index"
            width={column}
            interval={0}
            tick={(props: YAxisTickContentProps) => (
              <WordsLeft {...props} {...labels[Number(props.payload.value)]} />
            )}
            axisLine={LINE}
            tickLine={false}
          />
          <Tooltip
            isAnimationActive={false}
            cursor={{ fill: "var(--surface-sunken)" }}
            content={({ label }) => (label === undefined ? null : reading(Number(label)))}
          />
          <Bar
            dataKey="start"
            barSize={thickness}
            isAnimationActive={false}
            shape={({ y, originalDataIndex }: BarShapeProps) => (
              <Marks row={originalDataIndex} top={y} marks={marks} />
            )}
          />
        </BarChart>
      )}
    </Picture>
  );
}

function Marks({ row, top, marks }: Pick<RowsProps, "marks"> & { row: number; top: number }) {
  const place = useXAxisScale();
  return place ? marks(row, top, (value) => place(value) ?? 0) : null;
}
