import { type ReactNode, useContext, useId, useMemo, useRef, useState } from "react";
import { Button } from "../../../ui/Button";
import { download } from "../../../ui/download";
import type { Scale } from "../figures";
import { machineTitle } from "../machines";
import { dateOf, machineOf, type Run } from "../runs";
import "./chart-frame.css";
import { type Key, Legend } from "./Legend";
import { StepsContext } from "./look";
import { PlotTable } from "./PlotTable";
import { type Plot, type Series, scaleOf, seriesOf } from "./plot";
import type { Shape } from "./Swatch";
import { csvOf, pngOf, svgOf } from "./save";

export interface Drawing {
  readonly plot: Plot;
  readonly series: readonly Series[];
  readonly scale: Scale;
  readonly log: boolean;
  readonly shape: Shape;
}

interface ChartFrameProps {
  readonly plot: Plot;
  readonly runs: readonly Run[];
  readonly note?: ReactNode;
  /** Whether the chart offers a logarithmic axis. */
  readonly canLog?: boolean;
  readonly startLog?: boolean;
  /** Legend, if the colours do not represent runs. */
  readonly keys?: readonly Key[];
  /** Shape of the marks; a logarithmic axis shows bars as dots. */
  readonly shape?: "bar" | "line";
  readonly children: (drawing: Drawing) => ReactNode;
}

/** Machine and source of each run, which a saved image must state. */
function sourcesOf(series: readonly Series[]): readonly string[] {
  return series.map(({ run }) =>
    [run.title, machineOf(run.record) ?? "machine not stated", run.from, dateOf(run.record)]
      .filter(Boolean)
      .join(" · "),
  );
}

/** Machines of the runs, by name; two of ours may share the processor's name. */
function machinesOf(series: readonly Series[]): readonly string[] {
  const names = series.map(({ run }) =>
    run.kind === "ours" ? machineTitle(run) : (machineOf(run.record) ?? `not named by ${run.from}`),
  );
  return [...new Set(names)];
}

/** A chart with title, legend, table and files. The table contains everything that the chart shows. */
export function ChartFrame({
  plot,
  runs,
  note,
  canLog = false,
  startLog = false,
  keys,
  shape: form = "bar",
  children,
}: ChartFrameProps) {
  const id = useId();
  const figure = useRef<HTMLElement>(null);
  const steps = useContext(StepsContext);
  const [asTable, setAsTable] = useState(false);
  const [log, setLog] = useState(startLog);
  const [failed, setFailed] = useState("");
  const series = useMemo(() => seriesOf(plot, runs, steps), [plot, runs, steps]);
  const scale = useMemo(() => scaleOf(plot), [plot]);
  const places = useMemo(() => machinesOf(series), [series]);
  if (plot.points.length === 0) return null;

  const legend = keys ?? series.map(({ run, look }) => ({ text: run.title, look }));
  const shape: Shape = log && form === "bar" ? "dot" : form;
  const name = plot.title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const save = async (kind: "svg" | "png") => {
    const svg = figure.current?.querySelector<SVGSVGElement>("svg.recharts-surface");
    if (!figure.current || !svg) return;
    const marks = figure.current.querySelectorAll(".legend .swatch");
    try {
      const unit = scale.name ? `${plot.title}, ${scale.name}${log ? ", logarithmic" : ""}` : plot.title;
      const drawn = svgOf(
        svg,
        unit,
        legend.map(({ text }, index) => ({ text, mark: marks[index] })),
        sourcesOf(series),
      );
      if (kind === "svg") download(`${name}.svg`, "image/svg+xml", drawn.text);
      else download(`${name}.png`, "image/png", await pngOf(drawn));
      setFailed("");
    } catch (error) {
      setFailed(`The image could not be saved: ${error instanceof Error ? error.message : error}.`);
    }
  };

  return (
    <figure ref={figure} className="chart" aria-labelledby={`${id}-title`}>
      <div className="chart-head">
        <h3 id={`${id}-title`}>
          {plot.title}
          {scale.name && <span className="muted chart-unit"> in {scale.name}</span>}
          {log && <span className="muted chart-unit">, logarithmic</span>}
        </h3>
        <div className="chart-actions" role="toolbar" aria-label={`${plot.title}: view and files`}>
          <Button kind="quiet" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
            Table
          </Button>
          {canLog && !asTable && (
            <Button kind="quiet" aria-pressed={log} onClick={() => setLog(!log)}>
              Log
            </Button>
          )}
          {!asTable && (
            <>
              <Button kind="quiet" onClick={() => void save("svg")}>
                SVG
              </Button>
              <Button kind="quiet" onClick={() => void save("png")}>
                PNG
              </Button>
            </>
          )}
          <Button
            kind="quiet"
            onClick={() => download(`${name}.csv`, "text/csv;charset=utf-8", csvOf(plot, series))}
          >
            CSV
          </Button>
        </div>
      </div>
      {asTable ? (
        <PlotTable plot={plot} series={series} scale={scale} />
      ) : (
        <div className="chart-picture">{children({ plot, series, scale, log, shape })}</div>
      )}
      <Legend keys={legend} shape={shape} />
      <figcaption className="muted small">
        {note}
        {places.length > 1 && (
          <> From different machines ({places.join("; ")}): compare only figures of one machine.</>
        )}
        {log && " The logarithmic axis does not start at zero."}
        <span role="status">{failed}</span>
      </figcaption>
    </figure>
  );
}
