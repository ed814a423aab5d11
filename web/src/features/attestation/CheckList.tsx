import { milliseconds } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import "../../ui/table.css";
import "./check-list.css";
import { rowLabel } from "./labels";
import type { ShownRow } from "./seal";

const STAGES: Record<string, string> = {
  document: "Is the document well-formed?",
  chain: "Who signed it?",
  image: "Which code runs?",
  binding: "Is it fresh, and does it bind the keys?",
  parse: "Is the receipt well-formed?",
  signature: "Who signed the receipt?",
  claims: "Are its claims complete?",
  policy: "Does it match the attestation?",
  head: "Did the enclave sign this tree?",
  receipt: "Does the tree contain the receipt?",
  history: "Does it extend the history seen earlier?",
};

/**
 * Every check as a row: title, expected and observed value, clause, time and result.
 *
 * Styling hooks: `data-tone` on a row is its result (`passed`, `failed`, `warning`, `running`, `expired`, `none`); `data-check` is
 * the check's stable name, which tests use.
 */
export function CheckList({ rows, caption }: { rows: readonly ShownRow[]; caption: string }) {
  const stages = [...new Set(rows.map((row) => row.stage))];
  return (
    <table className="table table-cards check-list">
      <caption className="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          <th scope="col" className="end">
            No.
          </th>
          <th scope="col">Check</th>
          <th scope="col">Expected</th>
          <th scope="col">Observed</th>
          <th scope="col" className="end">
            Time, ms
          </th>
          <th scope="col">Result</th>
        </tr>
      </thead>
      {stages.map((stage) => (
        <Stage key={stage} stage={stage} rows={rows.filter((row) => row.stage === stage)} />
      ))}
    </table>
  );
}

function Stage({ stage, rows }: { stage: string; rows: readonly ShownRow[] }) {
  const passed = rows.filter((row) => row.state === "passed").length;
  return (
    <tbody>
      <tr className="check-stage">
        <th scope="rowgroup" colSpan={6}>
          {STAGES[stage] ?? stage}
          <span className="check-count">
            {passed} of {rows.length} passed
          </span>
        </th>
      </tr>
      {rows.map((row) => (
        <CheckRow key={row.id} row={row} />
      ))}
    </tbody>
  );
}

function CheckRow({ row }: { row: ShownRow }) {
  const { icon, label, tone } = rowLabel(row.state);
  return (
    <tr data-tone={tone} data-check={row.name}>
      <td className="end check-number">{row.id}</td>
      <th scope="row">
        {row.title}
        <span className="check-clause">
          {row.clause}
          {!row.required && " · informational"}
        </span>
      </th>
      <td data-label="Expected">
        <Value text={row.expected} />
      </td>
      <td data-label="Observed">
        <Value text={row.observed} />
      </td>
      <td className="end" data-label="Time, ms">
        {row.micros === null || row.micros === undefined ? "" : milliseconds(row.micros)}
      </td>
      <td data-label="Result">
        <span className="check-result">
          <Icon name={icon} />
          <span>
            {label}
            {row.code && <code className="check-code">{row.code}</code>}
          </span>
        </span>
      </td>
    </tr>
  );
}

/** Sets runs of hex digits in the monospaced face, so that two of them can be compared. */
function Value({ text }: { text: string }) {
  if (!text) return null;
  return text.split(/(?<![\w-])([0-9a-f]{16,})(?![\w-])/).map((part, index) => {
    const key = `${index}:${part}`;
    return index % 2 === 1 ? (
      <code key={key} className="check-hex">
        {part}
      </code>
    ) : (
      <span key={key}>{part}</span>
    );
  });
}
