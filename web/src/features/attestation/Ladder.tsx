import { milliseconds } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import "../../ui/table.css";
import "./ladder.css";
import type { ShownRow } from "./seal";
import { rowWords } from "./words";

const STAGES: Record<string, string> = {
  document: "Is the document well-formed?",
  chain: "Who signed it?",
  image: "Which code runs?",
  binding: "Is it for us, and are the keys bound to it?",
  parse: "Is the receipt well-formed?",
  signature: "Who signed the receipt?",
  claims: "Are its claims complete?",
  policy: "Does it agree with what was attested?",
  head: "Did the enclave sign this tree?",
  receipt: "Is the receipt in it?",
  history: "Is it the log's only history?",
};

/** Every check as a row: the question, what was expected, what was seen, where the rule stands, and what came of it. */
export function Ladder({ rows, caption }: { rows: readonly ShownRow[]; caption: string }) {
  const stages = [...new Set(rows.map((row) => row.stage))];
  return (
    <table className="table table-cards ladder">
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
      <tr className="ladder-stage">
        <th scope="rowgroup" colSpan={6}>
          {STAGES[stage] ?? stage}
          <span className="ladder-count">
            {passed} of {rows.length} passed
          </span>
        </th>
      </tr>
      {rows.map((row) => (
        <Rung key={row.id} row={row} />
      ))}
    </tbody>
  );
}

function Rung({ row }: { row: ShownRow }) {
  const { icon, word, tone } = rowWords(row.state);
  return (
    <tr data-tone={tone} data-check={row.name}>
      <td className="end ladder-number">{row.id}</td>
      <th scope="row">
        {row.title}
        <span className="ladder-clause">
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
        <span className="ladder-result">
          <Icon name={icon} />
          <span>
            {word}
            {row.code && <code className="ladder-code">{row.code}</code>}
          </span>
        </span>
      </td>
    </tr>
  );
}

/** Runs of hex digits are set in the face for numbers, so that two of them can be compared. */
function Value({ text }: { text: string }) {
  if (!text) return null;
  return text.split(/(?<![\w-])([0-9a-f]{16,})(?![\w-])/).map((part, index) => {
    const key = `${index}:${part}`;
    return index % 2 === 1 ? (
      <code key={key} className="ladder-hex">
        {part}
      </code>
    ) : (
      <span key={key}>{part}</span>
    );
  });
}
