import { type ReactNode, useMemo } from "react";
import "../../../ui/table.css";
import { Bars } from "../charts/Bars";
import { ChartFrame } from "../charts/ChartFrame";
import type { Plot } from "../charts/plot";
import { short, withUnit } from "../figures";
import "../parts.css";
import { ownTrend, privacyCost, publishedTrend, type Step } from "../privacy";
import type { Run } from "../runs";
import { Recorded } from "./Answer";
import { Percent } from "./Percent";

/** The cost of privacy in the published runs and in ours, in time order. */
export function Trend({ all }: { all: readonly Run[] }) {
  const published = useMemo(() => publishedTrend(all), [all]);
  const own = useMemo(() => ownTrend(privacyCost(all)), [all]);
  const shown = published[0]?.cost.inside;
  // One line of development, therefore one series.
  const run = useMemo(
    () => shown && { ...shown, title: `Published enclaves, ${published[0]?.machine}` },
    [shown, published],
  );
  const plot = useMemo(
    (): Plot => ({
      title: "Cost of the published enclave over time",
      dimension: "percent",
      axis: "Time and commit",
      points: run
        ? published.map(({ cost: { ratio, inside }, when }) => ({
            run,
            category: [when, inside.record.commit].filter(Boolean).join(", "),
            value: ratio.percent,
            published: withUnit("percent", ratio.percent),
          }))
        : [],
    }),
    [published, run],
  );
  return (
    <section className="bench-part" aria-labelledby="trend">
      <h3 id="trend">Over time</h3>
      {run && (
        <ChartFrame
          plot={plot}
          runs={[run]}
          note="Latency inside the enclave against outside, 128 tokens. A month without a day is listed before the days of that month."
        >
          {(drawing) => <Bars drawing={drawing} />}
        </ChartFrame>
      )}
      <Steps
        caption="Published runs, inside an enclave against outside"
        steps={published}
        nameOf={({ inside }) => inside.title}
        keyOf={({ inside }) => inside.key}
      >
        {({ ratio }) => <Percent ratio={ratio} />}
      </Steps>
      <Steps
        caption="Our runs, sealed path against bare engine"
        steps={own}
        nameOf={({ run }) => run.title}
        keyOf={({ run }) => run.key}
      >
        {({ percent, noise }) => (
          <>
            <Recorded percent={percent} />
            {noise !== null && <span className="muted small"> ± {short(noise)} points</span>}
          </>
        )}
      </Steps>
    </section>
  );
}

interface StepsProps<Cost> {
  readonly caption: string;
  readonly steps: readonly Step<Cost>[];
  readonly nameOf: (cost: Cost) => string;
  readonly keyOf: (cost: Cost) => string;
  readonly children: (cost: Cost) => ReactNode;
}

function Steps<Cost>({ caption, steps, nameOf, keyOf, children }: StepsProps<Cost>) {
  if (steps.length === 0) return null;
  return (
    <table className="table table-cards">
      <caption className="bench-caption">{caption}, in time order</caption>
      <thead>
        <tr>
          <th scope="col">Run</th>
          <th scope="col">Time</th>
          <th scope="col">Machine</th>
          <th scope="col" className="end">
            Cost
          </th>
          <th scope="col" className="end">
            Change on this machine
          </th>
        </tr>
      </thead>
      <tbody>
        {steps.map(({ cost, when, machine, change }) => (
          <tr key={keyOf(cost)}>
            <th scope="row">{nameOf(cost)}</th>
            <td data-label="Time" className="number">
              {when || "not stated"}
            </td>
            <td data-label="Machine">{machine}</td>
            <td data-label="Cost" className="end number">
              {children(cost)}
            </td>
            <td data-label="Change" className="end number">
              {change === null ? (
                <span className="muted">first run</span>
              ) : (
                `${change > 0 ? "+" : ""}${short(change)} points`
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
