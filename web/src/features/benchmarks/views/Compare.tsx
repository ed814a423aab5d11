import { memo, useDeferredValue, useMemo } from "react";
import { count, plural } from "../../../ui/format";
import "../../../ui/table.css";
import { LABELS, precisionOf } from "../comparability";
import { type Difference, differences } from "../compare";
import { bytesLabel, formatValue, short, subjectOf } from "../figures";
import { groupBy, withoutHeading } from "../group";
import { MissingRuns } from "../MissingRuns";
import { firstPair, nameOf } from "../names";
import "../parts.css";
import type { Measurement } from "../record.gen";
import type { Run } from "../runs";
import { TableParts } from "../TableParts";
import { useLinkState } from "../url";
import "./compare.css";
import { Percent } from "./Percent";
import { RunChoice } from "./RunChoice";
import type { ViewProps } from "./view";

const TONES: Readonly<Record<Difference["verdict"], string>> = {
  better: "verified",
  worse: "refused",
  "within noise": "unknown",
  "no spread stated": "unknown",
  "the same": "unknown",
  differs: "unknown",
  "another machine": "unknown",
  "not comparable": "unknown",
};

/** Further rows are only in the file. */
const MAX_ROWS = 400;
export function Compare({ all, runs }: ViewProps) {
  const [place, go] = useLinkState();
  const find = (key: string | undefined) => all.find((run) => run.key === key);
  const missingKeys = (place.compare ?? []).filter((key) => !find(key));
  const [own, peer] = useMemo(() => firstPair(all), [all]);
  const a = find(place.compare?.[0]) ?? peer ?? runs[0] ?? all[0];
  const b = find(place.compare?.[1]) ?? own ?? runs[1] ?? all[1];
  const pair = useDeferredValue(useMemo(() => (a && b ? ([a, b] as const) : null), [a, b]));
  if (!a || !b || !pair) return <p className="muted">Choose a second run to compare.</p>;
  return (
    <>
      <MissingRuns keys={missingKeys} />
      <div className="compare-choice">
        <RunChoice label="From" runs={all} chosen={a} onChoose={(key) => go({ compare: [key, b.key] })} />
        <RunChoice label="To" runs={all} chosen={b} onChoose={(key) => go({ compare: [a.key, key] })} />
      </div>
      <Differences a={pair[0]} b={pair[1]} />
    </>
  );
}

/** Rendered in slices, because two runs may share hundreds of figures. */
const Differences = memo(function Differences({ a, b }: { a: Run; b: Run }) {
  const rows = useMemo(() => differences(a, b), [a, b]);
  const largest = Math.max(1, ...rows.map(({ ratio }) => lengthOf(ratio)));
  if (rows.length === 0)
    return <p className="muted">These two runs share no figure with the same conditions.</p>;
  return (
    <>
      <table className="table table-cards">
        <caption className="bench-caption">
          {plural(rows.length, "shared figure")}: {tally(rows)}. Noise is half the{" "}
          <span data-quote="method">95 %</span> interval of the difference, if both runs state their spread.
        </caption>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            <th scope="col" className="end">
              {nameOf(a)}
            </th>
            <th scope="col" className="end">
              {nameOf(b)}
            </th>
            <th scope="col" className="end">
              Difference
            </th>
            <th scope="col" className="end">
              Noise
            </th>
            <th scope="col">Verdict</th>
          </tr>
        </thead>
        <TableParts items={rows.slice(0, MAX_ROWS)} headingOf={({ a }) => titleOf(a)} columns={6}>
          {(row, heading) => <Row key={row.key} row={row} heading={heading} a={a} b={b} largest={largest} />}
        </TableParts>
      </table>
      {rows.length > MAX_ROWS && (
        <p className="muted small">
          The first {MAX_ROWS} of {rows.length} are shown.
        </p>
      )}
    </>
  );
});

/** `12 better, 3 within noise`. */
function tally(rows: readonly Difference[]): string {
  const found = groupBy(rows, ({ verdict }) => verdict);
  return [...found].map(([verdict, { length }]) => `${count(length)} ${verdict}`).join(", ");
}

/** Verdicts that replace the number. */
const SELF_EXPLANATORY: ReadonlySet<Difference["verdict"]> = new Set(["within noise", "the same"]);

/** Length of a bar in per cent, at most 300. */
function lengthOf(ratio: Difference["ratio"]): number {
  return Math.min(300, Math.abs(ratio?.percent ?? 0));
}

interface RowProps {
  readonly row: Difference;
  readonly heading: string | null;
  readonly a: Run;
  readonly b: Run;
  readonly largest: number;
}

function Row({ row, heading, a, b, largest }: RowProps) {
  const { ratio, verdict, like } = row;
  const name = label(row);
  const [percent, width] = [ratio?.percent ?? 0, (lengthOf(ratio) / largest) * 50];
  const noise = ratio?.noise ?? null;
  return (
    <tr>
      <th scope="row">{withoutHeading(heading, name) || name}</th>
      <td className="end number" data-label={nameOf(a)} data-quote="recorded">
        {formatValue(row.a, row.from)}
      </td>
      <td className="end number" data-label={nameOf(b)} data-quote="recorded">
        {formatValue(row.b, row.to)}
      </td>
      <td className="end number" data-label="Difference">
        <span className="diff-cell">
          {ratio && (
            <svg className="diff" viewBox="0 0 100 10" width="80" height="8" aria-hidden="true">
              <path d="M50 0V10" />
              <rect x={percent < 0 ? 50 - width : 50} y="1" width={width} height="8" />
            </svg>
          )}
          <span>{!ratio ? "—" : SELF_EXPLANATORY.has(verdict) ? verdict : <Percent ratio={ratio} />}</span>
        </span>
      </td>
      <td className="end number" data-label="Noise" data-quote="noise">
        {noise === null ? "—" : `± ${short(noise)} %`}
      </td>
      <td data-label="Verdict" className={`tone-${TONES[verdict]}`}>
        {verdict}
        {like.reason !== null && <span className="muted small">: {like.reason}</span>}
      </td>
    </tr>
  );
}

function titleOf({ subject, parameters = {} }: Measurement): string {
  const { of } = parameters;
  const title = subjectOf(subject).title;
  return of ? `${title} of ${subjectOf(String(of)).title.toLowerCase()}` : title;
}

function label({ a: figure, engines }: Difference): string {
  const { of: _, ...rest } = figure.parameters ?? {};
  const words = Object.entries(rest)
    .filter(([name]) => !LABELS.has(name))
    .map(([name, value]) => {
      if (name === "payload_bytes" && typeof value === "number") return bytesLabel(value);
      if (name === "batch") return `batch of ${value}`;
      if (typeof value === "number" && name.endsWith("s"))
        return plural(value, name.slice(0, -1).replaceAll("_", " "));
      return typeof value === "number" ? `${count(value)} ${name.replaceAll("_", " ")}` : value;
    });
  const precision = precisionOf(figure);
  const format = precision === "f32" ? "" : precision;
  return [titleOf(figure), ...words, format, engines.join(" and ")].filter(Boolean).join(", ");
}
