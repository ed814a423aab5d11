import type { ReactNode } from "react";
import { Bars } from "../charts/Bars";
import { ChartFrame } from "../charts/ChartFrame";
import { Lines } from "../charts/Lines";
import type { Plot } from "../charts/plot";
import { hasOverlap, Stack, stageKeys } from "../charts/Stack";
import { bytesLabel, numeric, subjectOf } from "../figures";
import { SUBJECTS } from "../record.gen";
import type { Run } from "../runs";
import "./charts.css";
import {
  byParameter,
  bySubject,
  carrierOf,
  isPrimary,
  kindOf,
  percentiles,
  withPayload,
  withTransport,
} from "./plots";

interface ChartsProps {
  readonly runs: readonly Run[];
}

const names = (start: string) => SUBJECTS.map(({ name }) => name).filter((name) => name.startsWith(start));

interface BarChartProps {
  readonly plot: Plot;
  readonly runs: readonly Run[];
  readonly log?: boolean;
  readonly note?: ReactNode;
}

export function BarChart({ plot, runs, log, note }: BarChartProps) {
  return (
    <ChartFrame plot={plot} runs={runs} canLog startLog={log ?? false} note={note}>
      {(drawing) => <Bars drawing={drawing} />}
    </ChartFrame>
  );
}

export function Latency({ runs }: ChartsProps) {
  const at128 = (figure: Run["figures"][number]) =>
    isPrimary(figure) && (numeric(figure, "tokens") ?? 128) === 128;
  // Our runs contain turns of the bare engine as well as sealed ones.
  const sealed = (figure: Run["figures"][number]) =>
    at128(figure) && (figure.parameters?.path ?? "sealed") === "sealed";
  return (
    <>
      <BarChart runs={runs} plot={percentiles("Inference latency", "inference.latency", runs, at128)} />
      <BarChart runs={runs} plot={percentiles("Request, end to end", "request.end_to_end", runs, sealed)} />
      <BarChart
        runs={runs}
        plot={bySubject("Inferences per second, one at a time", "rate", ["inference.throughput"], runs)}
      />
    </>
  );
}

/** Title in the catalogue of subjects. */
const WHOLE = "Cold start in all";

export function ColdStart({ runs }: ChartsProps) {
  const stages = names("stage.").filter((name) => name !== "stage.cold_start_total");
  const plot = bySubject("Cold start", "time", [...stages, "stage.cold_start_total"], runs);
  return (
    <ChartFrame
      plot={plot}
      runs={runs}
      keys={stageKeys(plot, WHOLE)}
      note={`The published enclave spends nearly all of its start fetching the model from storage through the host.${
        hasOverlap(plot, WHOLE, runs)
          ? " In a bar of several lanes, stages ran at the same time: the bar ends at the measured total. The length of a stage is measured, its place in the bar is not."
          : ""
      }`}
    >
      {(drawing) => <Stack drawing={drawing} whole={WHOLE} />}
    </ChartFrame>
  );
}

const PATHS = [
  ["inference", "the model only"],
  ["sealed", "the whole sealed path"],
] as const;

export function Concurrency({ runs }: ChartsProps) {
  const lines = ([path, words]: (typeof PATHS)[number], title: string, subject: string) => {
    const fits = ({ parameters }: Run["figures"][number]) => parameters?.path === path;
    const plot = byParameter(`${title}, ${words}`, subject, "clients", "Concurrent clients", runs, { fits });
    return (
      <ChartFrame key={path} shape="line" runs={runs} plot={plot}>
        {(drawing) => <Lines drawing={drawing} xLabel="Concurrent clients" />}
      </ChartFrame>
    );
  };
  return (
    <>
      {PATHS.map((path) => (
        <div key={path[0]} className="chart-pair">
          {lines(path, "Throughput", "concurrency.throughput")}
          {lines(path, "Mean latency", "concurrency.latency")}
        </div>
      ))}
      <div className="chart-pair">
        {PATHS.map((path) => lines(path, "Scaling efficiency", "concurrency.efficiency"))}
      </div>
    </>
  );
}

const SIZES = SUBJECTS.filter(
  ({ name, dimension }) => name.startsWith("memory.") && dimension === "size",
).map(({ name }) => name);

export function Memory({ runs }: ChartsProps) {
  const label = ({ subject, parameters }: Run["figures"][number]) =>
    [subjectOf(subject).title, parameters?.process].filter(Boolean).join(", ");
  const plot = (title: string, fits: (figure: Run["figures"][number]) => boolean) =>
    bySubject(title, "size", SIZES, runs, label, undefined, (figure) => isPrimary(figure) && fits(figure));
  return (
    <>
      <BarChart runs={runs} plot={plot("Memory", (figure) => !isOfSuite(figure))} />
      <BarChart
        runs={runs}
        plot={plot("Memory of the benchmark suite", isOfSuite)}
        note="This process measures, and is not part of the product."
      />
    </>
  );
}

/** Whether the process measured is the suite itself. */
function isOfSuite({ parameters }: Run["figures"][number]): boolean {
  return String(parameters?.process).startsWith("this suite");
}

export function Transport({ runs }: ChartsProps) {
  return (
    <>
      <BarChart
        log
        runs={runs}
        plot={bySubject("Round trip", "time", ["transport.rtt"], runs, withTransport, carrierOf)}
      />
      <BarChart
        log
        runs={runs}
        plot={bySubject("Throughput", "bandwidth", ["transport.throughput"], runs, withTransport, carrierOf)}
      />
      <BarChart
        log
        runs={runs}
        plot={bySubject(
          "Handshake",
          "time",
          ["transport.handshake", "transport.reconnect"],
          runs,
          withTransport,
        )}
      />
      <BarChart
        runs={runs}
        plot={bySubject("Frame codec", "time", ["frame.latency"], runs, (figure) => {
          const bytes = numeric(figure, "payload_bytes");
          return `${figure.parameters?.operation}${bytes === undefined ? "" : `, ${bytesLabel(bytes)}`}`;
        })}
      />
    </>
  );
}

export function Crypto({ runs }: ChartsProps) {
  const primitives = names("crypto.").filter((name) => !name.endsWith("throughput"));
  return (
    <>
      <BarChart
        log
        runs={runs}
        plot={bySubject("Primitives", "time", primitives, runs, withPayload, kindOf)}
      />
      <BarChart
        runs={runs}
        plot={bySubject("Attestation document verified", "time", names("cose."), runs, withPayload)}
      />
      <BarChart
        runs={runs}
        plot={bySubject(
          "Cryptography around a request",
          "time",
          ["request.crypto", "request.crypto_overhead", "request.session_setup", "request.tcp_handshake"],
          runs,
          withPayload,
        )}
      />
    </>
  );
}
