import { useContext, useMemo } from "react";
import { plural } from "../../../ui/format";
import { Icon } from "../../../ui/Icon";
import "../../../ui/table.css";
import { type Look, lookOf, Shown } from "../charts/look";
import { Swatch } from "../charts/Swatch";
import { dimensionOf, headline, numeric, short, subjectOf, withUnit } from "../figures";
import { fits, type Likeness, likeness } from "../likeness";
import { nameOf, newestOf } from "../names";
import "../parts.css";
import { type Condition, ENVIRONMENTS, type Measurement } from "../record.gen";
import { dateOf, machineOf, type Run } from "../runs";
import { figureWith, type Judged, judgements, pairsOf } from "../verdict";
import { Machines } from "./Machines";
import "./overview.css";
import { Percent } from "./Percent";
import { Thresholds } from "./Thresholds";
import type { ViewProps } from "./views";

/** What ours takes on each machine first, then the published figures beside it, then what the guide says of enclaves. */
export function Overview({ runs, all }: ViewProps) {
  const pairs = pairsOf(runs);
  return (
    <>
      <Machines all={all} />
      <Headlines all={all} />
      {pairs.map(({ inside, outside }) => {
        const found = judgements(outside, inside);
        return found.length === 0 ? null : (
          <section key={inside.key} className="bench-part" aria-label={inside.title}>
            <h3>{inside.title}</h3>
            <p className="muted small">
              {outside
                ? `Beside ${outside.title}.`
                : "No run of the same commit outside of an enclave is among those chosen."}
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

function Verdict({ judged: { guide, value, step, ratio } }: { judged: Judged }) {
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
      <p className="muted tiny" data-said="guide">
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
  /** Of what is published. */
  readonly subject: string;
  readonly environment: "bare_metal" | "enclave";
  /** Of ours, where it goes by another name. */
  readonly own?: string;
  /** Which of ours. */
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

/** Ours beside the newest published figures, each with the conditions that differ. */
function Headlines({ all }: { all: readonly Run[] }) {
  const ours = useMemo(() => newestOf(all), [all]);
  const rows = useMemo(() => beside(all, ours), [all, ours]);
  if (rows.length === 0) return null;
  return (
    <section className="bench-part" aria-labelledby="headlines">
      <h3 id="headlines">Beside the published figures</h3>
      <table className="table table-cards">
        <caption className="visually-hidden">
          Ours beside the newest published figures, with the conditions that differ
        </caption>
        <thead>
          <tr>
            <th scope="col">What</th>
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
                <td data-label="Comparable">{like ? <Likely like={like} /> : ""}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p className="muted small prose">
        {ours && `Ours is ${nameOf(ours)}. `}All published figures are of another machine, so none of ours is
        divided by one. Implementations that took turns on one machine are above and under “Two runs”. A run
        of your own: <code>npm run bench</code>, then open its file above.
      </p>
    </section>
  );
}

function Likely({ like: { reason, differ } }: { like: Likeness }) {
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

function beside(all: readonly Run[], ours: Run | undefined) {
  // What is dropped is neither, and may be ten thousand runs.
  const known = all.filter(({ kind }) => kind !== "dropped");
  const usual = (figure: Measurement) =>
    (numeric(figure, "tokens") ?? 128) === 128 &&
    figure.parameters?.assumed === undefined &&
    // Of ours, only the server is what an enclave would hold.
    String(figure.parameters?.process ?? "enclave-server").startsWith("enclave-server");
  return HEADLINES.flatMap(({ title, subject, environment, own: name = subject, conditions = [] }) => {
    const newest = known.find(({ key }) => key.endsWith(`b00bab1-${environment.replace("_", "-")}`));
    const theirs = newest && figureWith(newest, subject, usual);
    if (!theirs) return [];
    const one = (run: Run) => (figure: Measurement) => usual(figure) && fits({ run, figure }, conditions);
    const own = ours && figureWith(ours, name, one(ours));
    const like = own ? likeness(own, theirs) : null;
    return [{ subject, title, published: theirs.value, own: own?.value, like }];
  });
}

function RunsTable({ runs }: { runs: readonly Run[] }) {
  const steps = useContext(Shown);
  return (
    <section className="bench-part" aria-labelledby="runs-shown">
      <h3 id="runs-shown">What is shown</h3>
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
          <span key={note} className="muted tiny bench-from" data-said="recorded">
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
