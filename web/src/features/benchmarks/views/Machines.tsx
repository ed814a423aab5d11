import { useMemo } from "react";
import { Bars } from "../charts/Bars";
import { ChartFrame } from "../charts/ChartFrame";
import { type Plot, point } from "../charts/plot";
import { short } from "../figures";
import { type Implementation, type Machine, machines } from "../machines";
import "../parts.css";
import type { Run } from "../runs";
import "./machines.css";
import { Percent } from "./Percent";

/** One sentence and one chart per machine. */
export function Machines({ all }: { all: readonly Run[] }) {
  const known = useMemo(() => machines(all), [all]);
  return known.map((machine) => <OneMachine key={machine.ours.run.key} machine={machine} />);
}

function OneMachine({ machine }: { machine: Machine }) {
  const { title, date, ours, peers, elsewhere, threads, simulated, newest } = machine;
  const all = [ours, ...peers];
  const runs = all.map(({ run, name }) => ({ ...run, title: legend(name, machine, run) }));
  const plot: Plot = {
    title: `Inference of 128 tokens on ${title}`,
    dimension: "time",
    axis: "Implementation",
    points: all.flatMap(({ figure, name }, index) => {
      const run = runs[index];
      return run ? point(run, figure, name, { statistic: "mean" }) : [];
    }),
  };
  return (
    <section className="bench-part machine" aria-label={title}>
      <h3>
        {title}
        {!newest && <span className="muted small"> an older run</span>}
      </h3>
      <p className="machine-sentence">
        {peers.length > 0 ? `On the same ${title}, 128 tokens` : `On ${title}, 128 tokens`}:{" "}
        <strong className="number">Clearseal {short(ours.ms)} ms</strong>
        {peers.map((peer) => (
          <Peer key={peer.name} peer={peer} />
        ))}
        .
      </p>
      {elsewhere.map((one) => (
        <p key={one.name} className="machine-elsewhere muted number">
          {one.name}: {short(one.ms)} ms, on another machine.
        </p>
      ))}
      <ChartFrame
        plot={plot}
        runs={runs}
        note={
          <>
            The model only, one text, {threads} threads, mean of {ours.figure.statistics?.samples ?? "all"}{" "}
            turns{date && `, ${date}`}. The implementations of one run took turns.
            {simulated && " SIMULATED: our run used no enclave."}
          </>
        }
      >
        {(drawing) => <Bars drawing={drawing} />}
      </ChartFrame>
    </section>
  );
}

function Peer({ peer: { name, ms, ratio } }: { peer: Implementation }) {
  return (
    <span className="number">
      , {name} {short(ms)} ms
      {ratio && (
        <>
          {" "}
          (<Percent ratio={ratio} words={["faster", "slower"]} />)
        </>
      )}
    </span>
  );
}

function legend(name: string, { title, simulated, ours }: Machine, run: Run): string {
  if (run.key === ours.run.key) return `${name}, ${title}${simulated ? ", simulated" : ""}`;
  return `${name}, same run`;
}
