import { useContext, useMemo } from "react";
import { plural } from "../../../ui/format";
import { Icon } from "../../../ui/Icon";
import "../../../ui/table.css";
import { type Look, lookOf, StepsContext } from "../charts/look";
import { Swatch } from "../charts/Swatch";
import { type Comparability, comparabilityOf, fits } from "../comparability";
import { dimensionOf, headline, numeric, short, subjectOf, withUnit } from "../figures";
import { nameOf, newestOf } from "../names";
import "../parts.css";
import { type Condition, ENVIRONMENTS, type Measurement } from "../record.gen";
import { dateOf, machineOf, type Run } from "../runs";
import { figureWith, type GuideVerdict, pairsOf, verdictsOf } from "../verdict";
import { Machines } from "./Machines";
import "./overview.css";
import { Percent } from "./Percent";
import { Thresholds } from "./Thresholds";
import { Trend } from "./Trend";
import type { ViewProps } from "./view";

/** Our latency on each machine, then the published figures, then the guide's verdicts on enclaves. */
export function Overview({ runs, all }: ViewProps) {
  const pairs = pairsOf(runs);
  const known = useMemo(() => all.filter(({ kind }) => kind !== "dropped"), [all]);
  return (
    <>
      <Machines all={all} />
      <Trend all={known} />
      <Headlines all={all} />
      {pairs.map(({ inside, outside }) => {
        const found = verdictsOf(outside, inside);
        return found.length === 0 ? null : (
          <section key={inside.key} className="bench-part" aria-label={inside.title}>
            <h3>{inside.title}</h3>
            <p className="muted small">
              {outside
                ? `Compared with ${outside.title}.`
                : "The chosen runs include no run of the same commit outside an enclave."}
            </p>
            <ul className="verdicts">
              {found.map((judged) => (
                <Verdict key={judged.guide.subject} judged={judged} />
              ))}
            </ul>
          </section>
        );
      })}
      <RunsTable runs={runs} />
    </>
  );
}

const GRADES = [
  { icon: "check", tone: "verified" },
  { icon: "warning", tone: "checking" },
  { icon: "cross", tone: "refused" },
  { icon: "dash", tone: "unknown" },
] as const;

function Verdict({ judged: { guide, value, step, ratio } }: { judged: GuideVerdict }) {
  const { icon, tone } = GRADES[step.grade] ?? GRADES[3];
  const dimension = subjectOf(guide.subject).dimension;
  return (
    <li className="verdict">
      <p className="muted small">{guide.title}</p>
      <p className="verdict-value number">{ratio ? <Percent ratio={ratio} /> : `${short(value)} s`}</p>
      <p className={`verdict-word tone-${tone}`}>
        <Icon name={icon} /> {step.verdict}
      </p>
      <Thresholds guide={guide} value={value} />
      <p className="muted tiny" data-quote="guide">
        {step.why}.
      </p>
      {ratio && (
        <p className="muted tiny number">
          {withUnit(dimension, ratio.common.from)} outside, {withUnit(dimension, ratio.common.to)} inside
        </p>
      )}
    </li>
  );
}

interface Headline {
  readonly title: string;
  /** Subject of the published figure. */
  readonly subject: string;
  readonly environment: "bare_metal" | "enclave";
  /** Our subject, if it has another name. */
  readonly own?: string;
  /** Conditions that select our figure. */
  readonly conditions?: readonly Condition[];
}

const HEADLINES: readonly Headline[] = [
  { title: "Inference of 128 tokens", subject: "inference.latency", environment: "bare_metal" },
  {
    title: "Cryptography of a request, X25519",
    subject: "request.crypto_overhead",
    environment: "bare_metal",
    own: "request.crypto",
    conditions: [["kind", { is: ["X25519"] }]],
  },
  {
    title: "Attestation document verified, a chain of three",
    subject: "cose.full",
    environment: "bare_metal",
    conditions: [["certificates", { is: ["3"] }]],
  },
  { title: "Peak resident memory of the enclave", subject: "memory.peak_rss", environment: "enclave" },
  { title: "Cold start of the enclave", subject: "stage.cold_start_total", environment: "enclave" },
];

/** Our figures next to the newest published ones, with the conditions that differ. */
function Headlines({ all }: { all: readonly Run[] }) {
  const ours = useMemo(() => newestOf(all), [all]);
  const rows = useMemo(() => headlineRows(all, ours), [all, ours]);
  if (rows.length === 0) return null;
  return (
    <section className="bench-part" aria-labelledby="headlines">
      <h3 id="headlines">Comparison with published figures</h3>
      <table className="table table-cards">
        <caption className="visually-hidden">
          Ours next to the newest published figures, with the conditions that differ
        </caption>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            <th scope="col" className="end">
              Published
            </th>
            <th scope="col" className="end">
              {ours?.record.environment === "simulated" ? "Ours, simulated" : "Ours"}
            </th>
            <th scope="col">Comparable</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ subject, title, published, own, like }) => {
            const { dimension } = subjectOf(subject);
            return (
              <tr key={title}>
                <th scope="row">{title}</th>
                <td className="end number" data-label="Published">
                  {withUnit(dimension, published)}
                </td>
                <td className="end number" data-label="Ours">
                  {own === undefined ? (
                    <span className="muted">not measured yet</span>
                  ) : (
                    withUnit(dimension, own)
                  )}
                </td>
                <td data-label="Comparable">{like ? <ComparabilityCell like={like} /> : ""}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p className="muted small prose">
        {ours && `Ours is ${nameOf(ours)}. `}All published figures come from other machines, so this table
        gives no ratios. Implementations that took turns on one machine are above and in the view “Compare
        runs”. To add your own run, use <code>npm run bench</code> and open its file above.
      </p>
    </section>
  );
}

function ComparabilityCell({ like: { reason, differ } }: { like: Comparability }) {
  return (
    <>
      {reason === null ? "The same measurement, on another machine" : `Not comparable: ${reason}`}.
      <details className="small">
        <summary>{plural(differ.length, "condition differs", "conditions differ")}</summary>
        <ul className="bench-list">
          {differ.map(({ name, ours, theirs }) => (
            <li key={name}>
              {name}: ours {ours ?? "not stated"}; theirs {theirs ?? "not stated"}
            </li>
          ))}
        </ul>
      </details>
    </>
  );
}

function headlineRows(all: readonly Run[], ours: Run | undefined) {
  // Dropped files are neither, and may contain ten thousand runs.
  const known = all.filter(({ kind }) => kind !== "dropped");
  const usual = (figure: Measurement) =>
    (numeric(figure, "tokens") ?? 128) === 128 &&
    figure.parameters?.assumed === undefined &&
    // Only our server would run inside an enclave.
    String(figure.parameters?.process ?? "enclave-server").startsWith("enclave-server");
  return HEADLINES.flatMap(({ title, subject, environment, own: name = subject, conditions = [] }) => {
    const newest = known.find(({ key }) => key.endsWith(`b00bab1-${environment.replace("_", "-")}`));
    const theirs = newest && figureWith(newest, subject, usual);
    if (!theirs) return [];
    const one = (run: Run) => (figure: Measurement) => usual(figure) && fits({ run, figure }, conditions);
    const own = ours && figureWith(ours, name, one(ours));
    const like = own ? comparabilityOf(own, theirs) : null;
    return [{ subject, title, published: theirs.value, own: own?.value, like }];
  });
}

function RunsTable({ runs }: { runs: readonly Run[] }) {
  const steps = useContext(StepsContext);
  return (
    <section className="bench-part" aria-labelledby="runs-shown">
      <h3 id="runs-shown">Runs shown</h3>
      <table className="table table-cards">
        <caption className="visually-hidden">Runs that are shown, with machine, date and commit</caption>
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">Environment</th>
            <th scope="col">Machine</th>
            <th scope="col">Date</th>
            <th scope="col">Commit</th>
            <th scope="col" className="end">
              Figures
            </th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <RunRow key={run.key} run={run} look={lookOf(run, steps)} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function RunRow({ run: { title, from, record, figures }, look }: { run: Run; look: Look }) {
  return (
    <tr>
      <th scope="row">
        <Swatch look={look} shape="bar" /> {title}
        <span className="muted tiny bench-from">{from}</span>
        {record.notes?.map((note) => (
          <span key={note} className="muted tiny bench-from" data-quote="recorded">
            {note}
          </span>
        ))}
      </th>
      <td data-label="Environment">{ENVIRONMENTS[record.environment]}</td>
      <td data-label="Machine">{machineOf(record) ?? "not stated"}</td>
      <td data-label="Date" className="number">
        {dateOf(record) ?? "not stated"}
      </td>
      <td data-label="Commit">
        <code>{record.commit ?? "—"}</code>
      </td>
      <td data-label="Figures" className="end number">
        {figures.filter((figure) => dimensionOf(figure) !== "any" && headline(figure) !== undefined).length}
      </td>
    </tr>
  );
}
