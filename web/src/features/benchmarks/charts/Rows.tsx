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
import { textWidth, wrapText } from "./text";

interface RowsProps {
  readonly title: string;
  /** From top to bottom; labels may repeat. A heading is above its label. */
  readonly rows: readonly { readonly label: string; readonly heading?: string | null }[];
  readonly axis: Axis;
  readonly log: boolean;
  /** Distance between rows in pixels; larger if a label needs it. */
  readonly step: number;
  /** Height of a row's marks in pixels. */
  readonly thickness: number;
  /** Maximum width of the labels' column in pixels. */
  readonly most: number;
  /** Values of a row, for the pointer or the arrow keys. */
  readonly reading: (row: number) => ReactNode;
  /** Draws a row's marks below `top`; `place` maps a value to a coordinate. */
  readonly marks: (row: number, top: number, place: (value: number) => number) => ReactNode;
}

/** Gap between labels and axis, in pixels. */
const LABEL_GAP = 12;
/** Height of the numbers below the axis, with margins. */
const BELOW = 34;
const MARGIN = { top: 4, right: 24, bottom: 4, left: 0 };

/**
 * Axes, grid and values of a horizontal bar chart.
 *
 * Recharts gets a single series with one number per row, independent of the number of runs: each series costs it
 * milliseconds, and it copies and freezes its input.
 */
export function Rows({ title, rows, axis, log, step, thickness, most, reading, marks }: RowsProps) {
  const widest = (texts: readonly string[]) => Math.ceil(Math.max(...texts.map(textWidth))) + LABEL_GAP;
  const names = rows.flatMap(({ label, heading }) => [label, heading ?? ""]);
  // Labels break only between words, so the column fits the longest word.
  const column = Math.max(Math.min(most, widest(names)), widest(names.flatMap((name) => name.split(" "))));
  const broken = (text: string) => (text === "" ? [] : wrapText(text, column - LABEL_GAP));
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
