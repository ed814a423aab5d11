import type { AuditSummary } from "@clearseal/verifier";
import { useMemo, useState } from "react";
import { count, duration, moment, plural } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import "../../ui/progress-bar.css";
import { type Audit, type AuditFace, faceOf, tally } from "./audit";
import "./batch.css";
import { AUDIT_FACES, FACES } from "./labels";
import { describeGaps, list, type Sequence, sequences } from "./sequence";
import { VirtualList } from "./VirtualList";

interface BatchProps {
  readonly audit: Extract<Audit, { at: "judging" | "judged" }>;
  readonly chosen: number | null;
  readonly onChoose: (index: number) => void;
}

/**
 * Several receipts: progress, number of each verdict, gaps in the sequence numbers, and the list.
 *
 * Styling hooks: `data-audit-face` is the {@link AuditFace}; `data-good` on a fact about a sequence tells whether it is expected.
 */
export function Batch({ audit, chosen, onChoose }: BatchProps) {
  const { found, summaries, at, tookMs } = audit;
  const counts = useMemo(() => tally(summaries), [summaries]);
  const series = useMemo(() => (at === "judged" ? sequences(summaries) : []), [at, summaries]);
  const [only, setOnly] = useState<AuditFace | "all">("all");
  const shown = useMemo(
    () => (only === "all" ? summaries : summaries.filter((summary) => faceOf(summary) === only)),
    [summaries, only],
  );
  return (
    <div className="batch">
      <div className="batch-head">
        <p className="number">
          <strong>{count(summaries.length)}</strong> of {plural(found.total, "receipt")} checked
          {tookMs !== null && <span className="muted"> in {duration(tookMs)}</span>}
        </p>
      </div>
      <progress
        className="progress"
        value={summaries.length}
        max={Math.max(1, found.total)}
        aria-label="Receipts checked"
      />
      <dl className="batch-counts">
        {FACES.filter((face) => counts[face] > 0).map((face) => (
          <div key={face} data-audit-face={face}>
            <dt>
              <Icon name={AUDIT_FACES[face].icon} /> {AUDIT_FACES[face].label}
            </dt>
            <dd className="number">{count(counts[face])}</dd>
          </div>
        ))}
      </dl>
      {at === "judged" && <Sequences series={series} />}
      <label className="small batch-filter">
        <span className="muted">Show</span>{" "}
        <select value={only} onChange={(event) => setOnly(event.target.value as AuditFace | "all")}>
          <option value="all">all receipts</option>
          {FACES.filter((face) => counts[face] > 0).map((face) => (
            <option key={face} value={face}>
              {AUDIT_FACES[face].label.toLowerCase()} ({count(counts[face])})
            </option>
          ))}
        </select>
      </label>
      <VirtualList
        label="Receipts"
        items={shown}
        chosen={shown.findIndex((summary) => summary.index === chosen)}
        onChoose={(place) => {
          const summary = shown[place];
          if (summary) onChoose(summary.index);
        }}
        render={(summary) => <Line summary={summary} />}
      />
    </div>
  );
}

function Line({ summary }: { summary: AuditSummary }) {
  const face = faceOf(summary);
  const { label, icon } = AUDIT_FACES[face];
  return (
    <span className="batch-line" data-audit-face={face}>
      <span className="batch-face">
        <Icon name={icon} /> {label}
      </span>
      <span className="number batch-number">
        {summary.sequence === null ? `line ${count(summary.line)}` : `no. ${count(summary.sequence)}`}
      </span>
      <span className="muted batch-when">
        {summary.issuedAt === null ? "" : moment(summary.issuedAt * 1000)}
      </span>
      <span className="batch-what">{summary.code ? <code>{summary.code}</code> : summary.modelId}</span>
    </span>
  );
}

function Sequences({ series }: { series: readonly Sequence[] }) {
  if (series.length === 0) {
    return <p className="small muted">No receipt passed, so the sequence numbers prove nothing.</p>;
  }
  return (
    <section className="sequences">
      <h3>Sequence numbers</h3>
      <p className="lead">
        An enclave numbers the receipts of each key from 1. A missing number is a receipt that is not in this
        list: it belongs to another client, or was omitted. An honest enclave never uses a number for two
        different receipts.
      </p>
      {series.map((one) => (
        <SequenceOf key={one.signer} one={one} />
      ))}
    </section>
  );
}

function SequenceOf({ one }: { one: Sequence }) {
  const { signer, first, last, receipts, missing, before, repeats, copies } = one;
  const complete = before === 0 && missing === 0;
  return (
    <div className="sequence">
      <p>
        <code>{signer}</code>{" "}
        <span className="muted">
          {plural(receipts, "receipt")}, no. {count(first)} to {count(last)}
        </span>
      </p>
      <ul>
        {describeGaps(one).map((words) => (
          <li key={words} data-good={complete}>
            <Icon name={complete ? "check" : "warning"} /> {words}
          </li>
        ))}
        <li data-good={repeats.length === 0}>
          <Icon name={repeats.length === 0 ? "check" : "warning"} />{" "}
          {repeats.length === 0
            ? "No number is repeated"
            : `${plural(repeats.length, "number")} shared by different receipts: ${list(repeats.map(({ sequence }) => count(sequence)))}`}
        </li>
        {copies > 0 && (
          <li>
            <Icon name="dash" /> {plural(copies, "receipt")} here more than once, byte for byte
          </li>
        )}
      </ul>
    </div>
  );
}
