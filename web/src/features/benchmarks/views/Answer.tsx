import { type ReactNode, useMemo } from "react";
import { short } from "../figures";
import { machineTitle } from "../machines";
import { type OwnCost, type PublishedCost, privacyCost } from "../privacy";
import { dateOf, machineKey, machineOf, type Run } from "../runs";
import "./answer.css";
import { Percent } from "./Percent";

/** Answers the title of the page from the records. */
export function Answer({ all }: { all: readonly Run[] }) {
  const { published, simulated, enclave } = useMemo(() => privacyCost(all), [all]);
  return (
    <section className="answer" aria-label="Cost of privacy">
      <dl>
        <Row title="Published on Nitro" costs={published}>
          {([newest, ...earlier]) => <Published newest={newest} earlier={earlier} />}
        </Row>
        <Row title="Ours, simulated enclave" costs={simulated}>
          {([newest, ...earlier]) => (
            <Own cost={newest} what="Sealed path against bare engine, no enclave" earlier={earlier} />
          )}
        </Row>
        <Row title="Ours on Nitro" costs={enclave}>
          {([newest, ...earlier]) => (
            <Own cost={newest} what="Sealed path in an enclave against bare engine" earlier={earlier} />
          )}
        </Row>
      </dl>
    </section>
  );
}

interface RowProps<Cost> {
  readonly title: string;
  /** Newest first. */
  readonly costs: readonly Cost[];
  readonly children: (costs: readonly [Cost, ...Cost[]]) => ReactNode;
}

function Row<Cost>({ title, costs, children }: RowProps<Cost>) {
  const [newest, ...earlier] = costs;
  return (
    <div>
      <dt>{title}</dt>
      {newest === undefined ? (
        <>
          <dd className="answer-value answer-missing">not measured</dd>
          <dd className="muted small">No run here has measured this.</dd>
        </>
      ) : (
        children([newest, ...earlier])
      )}
    </div>
  );
}

function Published({ newest, earlier }: { newest: PublishedCost; earlier: readonly PublishedCost[] }) {
  const { inside, ratio } = newest;
  return (
    <>
      <dd className="answer-value">
        <Percent ratio={ratio} />
      </dd>
      <dd className="muted small">
        Inference inside an enclave against outside, 128 tokens: {inside.title.split(",")[0]},{" "}
        {machineOf(inside.record) ?? "machine not stated"}, {dateOf(inside.record) ?? "no date"}.
        {earlier.length > 0 && " Earlier: "}
        {earlier.map(({ inside, ratio }, index) => (
          <span key={inside.key}>
            {index > 0 && ", "}
            <Percent ratio={ratio} />
          </span>
        ))}
        {earlier.length > 0 && "."}
      </dd>
    </>
  );
}

interface OwnProps {
  readonly cost: OwnCost;
  readonly what: string;
  /** Newest first. */
  readonly earlier: readonly OwnCost[];
}

function Own({ cost: { run, percent, noise, shortest }, what, earlier }: OwnProps) {
  const machine = machineKey(run.record);
  const others = new Map(
    earlier
      .toReversed()
      .map((cost) => [machineKey(cost.run.record), cost] as const)
      .filter(([key]) => key !== machine),
  );
  return (
    <>
      <dd className="answer-value">
        <Recorded percent={percent} />
      </dd>
      <dd className="muted small">
        {what}, 128 tokens: {machineTitle(run)}, {dateOf(run.record) ?? "no date"}
        {noise !== null && `, ± ${short(noise)} points`}.
        {shortest && (
          <>
            {" "}
            At {shortest.tokens} tokens <Recorded percent={shortest.percent} />.
          </>
        )}
        {[...others.values()].toReversed().map((cost) => (
          <span key={cost.run.key}>
            {" "}
            {machineTitle(cost.run)}: <Recorded percent={cost.percent} />.
          </span>
        ))}
      </dd>
    </>
  );
}

/** An overhead that a record states. */
export function Recorded({ percent }: { percent: number }) {
  return (
    <span className="number" data-quote="recorded">
      {percent > 0 && "+"}
      {short(percent)} %
    </span>
  );
}
