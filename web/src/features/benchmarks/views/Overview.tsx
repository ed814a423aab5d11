import { useMemo } from "react";
import { Icon } from "../../../ui/Icon";
import { dimensionOf, headline, numeric, short, subjectOf, withUnit } from "../figures";
import { ENVIRONMENTS } from "../record.gen";
import { dateOf, machineOf, type Run } from "../runs";
import { figureOf, type Judged, judgements, pairsOf } from "../verdict";
import { Thresholds } from "./Thresholds";
import type { ViewProps } from "./views";

/** Verdicts first, then ours against the published figures, then what is shown and where it comes from. */
export function Overview({ runs, all }: ViewProps) {
  const pairs = pairsOf(runs);
  return (
    <>
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
      {pairs.length === 0 && (
        <p className="muted">None of the chosen runs is of an enclave, so there is nothing to judge.</p>
      )}
      <Headlines all={all} />
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

function Verdict({ judged: { guide, value, step, basis } }: { judged: Judged }) {
  const { icon, tone } = GRADES[step.grade] ?? GRADES[3];
  const dimension = subjectOf(guide.subject).dimension;
  return (
    <li className="verdict">
      <p className="muted small">{guide.title}</p>
      <p className="verdict-value number">
        {guide.unit === "s" ? `${short(value)} s` : `${value > 0 ? "+" : ""}${short(value)} %`}
      </p>
      <p className={`verdict-word tone-${tone}`}>
        <Icon name={icon} /> {step.verdict}
      </p>
      <Thresholds guide={guide} value={value} />
      <p className="muted tiny">{step.why}.</p>
      {basis.length === 2 && (
        <p className="muted tiny number">
          {withUnit(dimension, basis[0])} outside, {withUnit(dimension, basis[1])} inside
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
  /** Parameter `kind` of ours. */
  readonly kind?: string;
}

const HEADLINES: readonly Headline[] = [
  { title: "Inference of 128 tokens", subject: "inference.latency", environment: "bare_metal" },
  {
    title: "Cryptography of a request, X25519",
    subject: "request.crypto_overhead",
    environment: "bare_metal",
    own: "request.crypto",
    kind: "X25519",
  },
  {
    title: "The same, ours post-quantum (X-Wing)",
    subject: "request.crypto_overhead",
    environment: "bare_metal",
    own: "request.crypto",
    kind: "X-Wing",
  },
  {
    title: "Attestation document verified, p384",
    subject: "cose.full",
    environment: "bare_metal",
    kind: "p384",
  },
  {
    title: "The same, ECDSA by AWS-LC",
    subject: "cose.full",
    environment: "bare_metal",
    kind: "aws-lc-rs",
  },
  { title: "Peak resident memory of the enclave", subject: "memory.peak_rss", environment: "enclave" },
  { title: "Cold start of the enclave", subject: "stage.cold_start_total", environment: "enclave" },
];

/** Ours over the newest published figure of the same thing. */
function Headlines({ all }: { all: readonly Run[] }) {
  // What is dropped is neither, and may be ten thousand runs.
  const known = useMemo(() => all.filter(({ kind }) => kind !== "dropped"), [all]);
  const ours = known.filter(({ kind }) => kind === "ours");
  const fits = (figure: Run["figures"][number]) =>
    (numeric(figure, "tokens") ?? 128) === 128 &&
    figure.parameters?.assumed === undefined &&
    // Of ours, only the server is what an enclave would hold.
    String(figure.parameters?.process ?? "enclave-server").startsWith("enclave-server");
  const rows = HEADLINES.flatMap(({ title, subject, environment, own: name = subject, kind }) => {
    const newest = known.find(({ key }) => key.endsWith(`b00bab1-${environment.replace("_", "-")}`));
    const published = newest && figureOf(newest, subject, fits);
    if (published === undefined) return [];
    const ofKind = (figure: Run["figures"][number]) =>
      fits(figure) && (kind === undefined || figure.parameters?.kind === kind);
    const own = ours.map((run) => figureOf(run, name, ofKind)).find((value) => value !== undefined);
    return [{ subject, title, published, own }];
  });
  return (
    <section className="bench-part" aria-labelledby="headlines">
      <h3 id="headlines">Ours beside the newest published figures</h3>
      <table className="table table-cards">
        <caption className="visually-hidden">Ours beside the newest published figures</caption>
        <thead>
          <tr>
            <th scope="col">What</th>
            <th scope="col" className="end">
              Published
            </th>
            <th scope="col" className="end">
              Ours
            </th>
            <th scope="col" className="end">
              Published over ours
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ subject, title, published, own }) => {
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
                <td className="end number" data-label="Ratio">
                  {own === undefined ? "—" : `${short(published / own)} ×`}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p className="muted small prose">
        The machines differ, so a ratio holds for the two together and not for the code alone. Runs on one
        machine, taking turns, are under “Two runs”. A run of your own: <code>npm run bench</code>, then drop
        its file above.
      </p>
    </section>
  );
}

function RunsTable({ runs }: { runs: readonly Run[] }) {
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
          {runs.map(({ key, title, from, record, figures }) => (
            <tr key={key}>
              <th scope="row">
                {title}
                <span className="muted tiny bench-from">{from}</span>
                {record.notes?.map((note) => (
                  <span key={note} className="muted tiny bench-from">
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
                {
                  figures.filter((figure) => dimensionOf(figure) !== "any" && headline(figure) !== undefined)
                    .length
                }
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
