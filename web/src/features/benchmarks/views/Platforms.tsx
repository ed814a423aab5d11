import { useMemo } from "react";
import "../../../ui/table.css";
import { Bars } from "../charts/Bars";
import { ChartFrame } from "../charts/ChartFrame";
import { type Plot, point } from "../charts/plot";
import { asPublished } from "../figures";
import "../parts.css";
import type { Measurement } from "../record.gen";
import { acrossPlatforms } from "../runs";
import { TableParts } from "../TableParts";
import type { ViewProps } from "./view";

/** The cross-platform table with its citations, from the newest report that has it. */
export function Platforms({ all, sources }: ViewProps) {
  const { table: run, enclave } = useMemo(() => acrossPlatforms(all), [all]);
  const source = sources.find(({ runs }) => run && runs.includes(run));
  const plot = useMemo((): Plot => {
    const own = enclave?.figures.find(
      ({ subject, parameters }) => subject === "overhead" && parameters?.of === "inference.latency",
    );
    const rows = run?.figures.filter(({ subject }) => subject === "platform.overhead") ?? [];
    return {
      title: "Overhead of inference",
      dimension: "percent",
      axis: "Platform and workload",
      points: run
        ? [
            ...rows.flatMap((figure) => point(run, figure, labelOf(figure), { heading: makerOf(figure) })),
            ...(enclave && own
              ? point(enclave, own, "AWS Nitro, MiniLM-L6-v2 (published)", { heading: "AWS" })
              : []),
          ]
        : [],
    };
  }, [run, enclave]);
  if (!run) return <p className="muted">No loaded report has such a table.</p>;
  const references = new Map(source?.report?.references?.map((reference) => [reference.number, reference]));
  const rows = run.figures.filter(({ subject }) => subject.startsWith("platform."));
  return (
    <>
      <ChartFrame
        plot={plot}
        runs={enclave ? [enclave, run] : [run]}
        note="A range is drawn at its middle. Rows without a number appear only in the table below."
      >
        {(drawing) => <Bars drawing={drawing} />}
      </ChartFrame>
      <table className="table table-cards">
        <caption className="bench-caption">All rows, with sources</caption>
        <thead>
          <tr>
            <th scope="col">Platform</th>
            <th scope="col">Model or workload</th>
            <th scope="col">Overhead</th>
            <th scope="col">Source</th>
          </tr>
        </thead>
        <TableParts items={rows} headingOf={makerOf} columns={4}>
          {(figure) => {
            const reference = references.get(figure.cite?.reference ?? -1);
            return (
              <tr key={JSON.stringify([figure.subject, figure.parameters])}>
                <th scope="row">{figure.parameters?.platform}</th>
                <td data-label="Workload">
                  {[figure.parameters?.workload, figure.parameters?.variant].filter(Boolean).join(", ")}
                </td>
                <td data-label="Overhead" className="number" data-quote="published">
                  {asPublished(figure)}
                  {figure.subject === "platform.slowdown" && " slower"}
                  {figure.subject === "platform.cost_ratio" && " the cost of a GPU"}
                </td>
                <td data-label="Source" className="small">
                  {reference ? (
                    <a href={reference.url} rel="noreferrer noopener" target="_blank">
                      {reference.work}
                    </a>
                  ) : (
                    "none named"
                  )}
                </td>
              </tr>
            );
          }}
        </TableParts>
      </table>
    </>
  );
}

/** Manufacturer of the hardware. */
function makerOf({ parameters }: Measurement): string {
  const platform = String(parameters?.platform);
  const [maker] = /^(AWS|NVIDIA|Intel|AMD|ARM)/.exec(platform) ?? (/SGX/.test(platform) ? ["Intel"] : []);
  return maker ?? "Not stated";
}

function labelOf({ parameters }: Measurement): string {
  return `${parameters?.platform}, ${parameters?.workload}`;
}
