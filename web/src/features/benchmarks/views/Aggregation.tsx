import { useMemo, useState } from "react";
import { count } from "../../../ui/format";
import { Bars } from "../charts/Bars";
import { ChartFrame } from "../charts/ChartFrame";
import { type Plot, point } from "../charts/plot";
import { numeric, subjectOf } from "../figures";
import "../parts.css";
import type { Run } from "../runs";
import type { ViewProps } from "./view";

const WORKLOADS = [
  {
    key: "aes",
    title: "AES",
    note: "The workload decrypts each record with its device's key (AES-128-CBC), then adds it.",
    phases: ["total", "setup", "decrypt_sum", "final"],
  },
  {
    key: "terse",
    title: "Terse",
    note: "The workload adds plain numbers, then looks them up in a table of 16,000.",
    phases: ["total", "read", "sum", "lookup"],
  },
] as const;

const SIMULATED = "Our enclave is simulated.";

export function Aggregation({ runs }: ViewProps) {
  return WORKLOADS.map((workload) => <Workload key={workload.key} runs={runs} workload={workload} />);
}

function Workload({ runs, workload }: { runs: readonly Run[]; workload: (typeof WORKLOADS)[number] }) {
  const [phase, setPhase] = useState<string>("total");
  const plot = useMemo((): Plot => {
    const subject = `aggregation.${phase}`;
    const rows = runs.flatMap((run) =>
      run.figures.flatMap((figure) => {
        if (figure.subject !== subject || figure.parameters?.workload !== workload.key) return [];
        if (figure.parameters.mode !== undefined && figure.parameters.mode !== "compatible") return [];
        return [{ ...rowOf(run, figure), run, figure }];
      }),
    );
    rows.sort((a, b) => PLACES.indexOf(a.place) - PLACES.indexOf(b.place) || a.records - b.records);
    const points = rows.flatMap(({ run, figure, label, place }) =>
      point(run, figure, label, { heading: place }),
    );
    return {
      title: `${workload.title}: ${subjectOf(subject).title.toLowerCase()}`,
      dimension: "time",
      axis: "Devices × records per device",
      points,
    };
  }, [runs, workload, phase]);
  return (
    <section className="bench-part" aria-label={`${workload.title} workload`}>
      <label className="bench-select small">
        Phase of the {workload.title} workload{" "}
        <select className="bench-field" value={phase} onChange={({ target }) => setPhase(target.value)}>
          {workload.phases.map((name) => (
            <option key={name} value={name}>
              {subjectOf(`aggregation.${name}`).title}
            </option>
          ))}
        </select>
      </label>
      <ChartFrame plot={plot} runs={runs} canLog startLog note={`${workload.note} ${SIMULATED}`}>
        {(drawing) => <Bars drawing={drawing} />}
      </ChartFrame>
      {plot.points.length === 0 && <p className="muted small">No chosen run has this phase.</p>}
    </section>
  );
}

const PLACES = ["native", "enclave", "hybrid"];

/** Row of a figure: platform and size, the same for published figures and ours. */
function rowOf({ record: { environment } }: Run, figure: Run["figures"][number]) {
  const [devices = 0, each = 0] = [numeric(figure, "devices"), numeric(figure, "records_per_device")];
  // A run of ours has all platforms, such as `enclave (simulated)`; a published run has one.
  const stated = figure.parameters?.platform?.toString().replace(/ \(.*/, "");
  const place = stated ?? (environment === "bare_metal" ? "native" : environment.replace("sgx", "enclave"));
  return { place, records: devices * each, label: `${count(devices)} × ${count(each)}, ${place}` };
}
