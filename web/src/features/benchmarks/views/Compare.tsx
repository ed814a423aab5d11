import { memo, useDeferredValue, useId, useMemo } from "react";
import { count, plural } from "../../../ui/format";
import { type Difference, differences } from "../compare";
import { bytesLabel, dimensionOf, short, subjectOf, withUnit } from "../figures";
import { firstPair, nameOf } from "../names";
import type { Measurement } from "../record.gen";
import type { Run } from "../runs";
import { usePlace } from "../url";
import type { ViewProps } from "./views";

const TONES: Readonly<Record<Difference["verdict"], string>> = {
  better: "verified",
  worse: "refused",
  "within noise": "unknown",
  "no spread stated": "unknown",
  "the same": "unknown",
  differs: "unknown",
};

/** More rows than this are of no use to eyes; the file has them all. */
const MOST_ROWS = 400;
/** More options than this make a select that nobody can use. */
const MOST_OPTIONS = 200;

export function Compare({ all, runs }: ViewProps) {
  const [place, go] = usePlace();
  const find = (key: string | undefined) => all.find((run) => run.key === key);
  const gone = (place.compare ?? []).filter((key) => !find(key));
  const [own, peer] = useMemo(() => firstPair(all), [all]);
  const a = find(place.compare?.[0]) ?? peer ?? runs[0] ?? all[0];
  const b = find(place.compare?.[1]) ?? own ?? runs[1] ?? all[1];
  const pair = useDeferredValue(useMemo(() => (a && b ? ([a, b] as const) : null), [a, b]));
  if (!a || !b || !pair) return <p className="muted">Two runs are needed to compare.</p>;
  return (
    <>
      {gone.length > 0 && (
        <p role="alert" className="bench-gone">
          The link names {gone.join(" and ")}, which {gone.length === 1 ? "is" : "are"} not here. A file that
          somebody opened stays in their tab: open the same file here, and the link works.
        </p>
      )}
      <div className="compare-choice">
        <Choice label="From" runs={all} chosen={a} onChoose={(key) => go({ compare: [key, b.key] })} />
        <Choice label="To" runs={all} chosen={b} onChoose={(key) => go({ compare: [a.key, key] })} />
      </div>
      <Differences a={pair[0]} b={pair[1]} />
    </>
  );
}

/** Follows a choice in slices, for two runs may share hundreds of figures. */
const Differences = memo(function Differences({ a, b }: { a: Run; b: Run }) {
  const rows = useMemo(() => differences(a, b), [a, b]);
  const largest = Math.max(1, ...rows.map(({ percent }) => Math.min(300, Math.abs(percent))));
  if (rows.length === 0)
    return (
      <p className="muted">These two runs share no figure that was measured under the same conditions.</p>
    );
  return (
    <>
      <table className="table table-cards">
        <caption className="bench-caption">
          {plural(rows.length, "shared figure")}. Noise is the 95 % interval of the difference, where both
          runs state their spread.
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
        <tbody>
          {rows.slice(0, MOST_ROWS).map((row) => (
            <Row key={row.key} row={row} a={a} b={b} largest={largest} />
          ))}
        </tbody>
      </table>
      {rows.length > MOST_ROWS && (
        <p className="muted small">
          The first {MOST_ROWS} of {rows.length} are shown.
        </p>
      )}
    </>
  );
});

function Row({ row, a, b, largest }: { row: Difference; a: Run; b: Run; largest: number }) {
  const dimension = dimensionOf(row.a);
  const width = (Math.min(300, Math.abs(row.percent)) / largest) * 50;
  return (
    <tr>
      <th scope="row">{label(row.a)}</th>
      <td className="end number" data-label={nameOf(a)}>
        {withUnit(dimension, row.from)}
      </td>
      <td className="end number" data-label={nameOf(b)}>
        {withUnit(dimension, row.to)}
      </td>
      <td className="end number" data-label="Difference">
        <svg className="diff" viewBox="0 0 100 10" width="80" height="8" aria-hidden="true">
          <path d="M50 0V10" />
          <rect x={row.percent < 0 ? 50 - width : 50} y="1" width={width} height="8" />
        </svg>
        {row.verdict === "within noise" || row.verdict === "the same"
          ? row.verdict
          : `${row.percent > 0 ? "+" : ""}${short(row.percent)} %`}
      </td>
      <td className="end number" data-label="Noise">
        {row.noise === null ? "—" : `± ${short(row.noise)} %`}
      </td>
      <td data-label="Verdict" className={`tone-${TONES[row.verdict]}`}>
        {row.verdict}
      </td>
    </tr>
  );
}

function Choice(props: {
  readonly label: string;
  readonly runs: readonly Run[];
  readonly chosen: Run;
  readonly onChoose: (key: string) => void;
}) {
  const { label, runs, chosen, onChoose } = props;
  const id = useId();
  const shown = runs.slice(0, MOST_OPTIONS);
  return (
    <div className="bench-select small">
      <label htmlFor={id}>{label}</label>
      <select id={id} value={chosen.key} onChange={({ target }) => onChoose(target.value)}>
        {(shown.includes(chosen) ? shown : [chosen, ...shown]).map((run) => (
          <option key={run.key} value={run.key}>
            {nameOf(run)}
          </option>
        ))}
      </select>
    </div>
  );
}

const HIDDEN = new Set(["engine", "padded", "transport", "attestation", "study"]);

function label({ subject, parameters = {} }: Measurement): string {
  const { of, ...rest } = parameters;
  const words = Object.entries(rest)
    .filter(([name]) => !HIDDEN.has(name))
    .map(([name, value]) => {
      if (name === "payload_bytes" && typeof value === "number") return bytesLabel(value);
      if (name === "batch") return `batch of ${value}`;
      if (typeof value === "number" && name.endsWith("s"))
        return plural(value, name.slice(0, -1).replaceAll("_", " "));
      return typeof value === "number" ? `${count(value)} ${name.replaceAll("_", " ")}` : value;
    });
  const title = subjectOf(subject).title;
  return [of ? `${title} of ${subjectOf(String(of)).title.toLowerCase()}` : title, ...words].join(", ");
}
