import { useMemo, useState } from "react";
import { plural } from "../../../ui/format";
import "../../../ui/table.css";
import { type Answer, type ComparedRow, compareTable } from "../comparison";
import { groupBy } from "../group";
import { newestOf } from "../names";
import "../parts.css";
import { ENVIRONMENTS, type Table } from "../record.gen";
import { machineOf, type Run, type Source } from "../runs";
import "./published.css";
import { RunChoice } from "./RunChoice";
import type { ViewProps } from "./view";

/** All tables of all reports as published, with our figures in a further column. */
export function Published({ sources, all }: ViewProps) {
  const candidates = useMemo(() => all.filter(({ kind, peer }) => kind !== "published" && !peer), [all]);
  const newest = useMemo(() => newestOf(candidates) ?? candidates[0], [candidates]);
  const [chosen, setChosen] = useState<string | null>(null);
  const ours = candidates.find(({ key }) => key === chosen) ?? newest;
  return (
    <>
      {ours && (
        <div className="comparison-run">
          <RunChoice
            label="Run in the column “Ours”"
            runs={candidates}
            chosen={ours}
            onChoose={(key) => setChosen(key)}
          />
          <p className="muted small prose">
            This run used {machineOf(ours.record) ?? "a machine that it does not name"},{" "}
            {ENVIRONMENTS[ours.record.environment]}. All reports used other machines, so the tables give no
            ratios. Figures that are not comparable state the reason.
          </p>
        </div>
      )}
      {sources
        .filter(({ tables }) => tables.length > 0)
        .map((source) => (
          <Report key={source.id} source={source} ours={ours} />
        ))}
    </>
  );
}

interface ReportProps {
  readonly source: Source;
  readonly ours: Run | undefined;
}

function Report({ source, ours }: ReportProps) {
  const { id, report, tables } = source;
  return (
    <section className="bench-part" aria-labelledby={`report-${id} report-${id}-where`}>
      <h3 id={`report-${id}`}>{report?.title ?? id}</h3>
      {/* Titles of reports may repeat. */}
      <p id={`report-${id}-where`} className="muted small">
        {report?.date ? `${report.date}, ` : "Date not stated, "}
        <code>{id}</code>
      </p>
      {tables.map((table) => (
        <PublishedTable key={table.id} source={source} table={table} ours={ours} />
      ))}
      {report?.statements && (
        <details className="bench-details">
          <summary>
            Figures in sentences <span className="muted small number">{report.statements.length}</span>
          </summary>
          <ul className="bench-list small" data-quote="published">
            {report.statements.map(({ heading, quote }) => (
              <li key={heading + quote}>
                “{quote}” <span className="muted">{heading}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
      {report?.references && (
        <details className="bench-details">
          <summary>
            Works cited <span className="muted small number">{report.references.length}</span>
          </summary>
          <ol className="bench-list small">
            {report.references.map(({ number, work, url }) => (
              <li key={number}>
                <a href={url} rel="noreferrer noopener" target="_blank">
                  {work}
                </a>
              </li>
            ))}
          </ol>
        </details>
      )}
    </section>
  );
}

/** Rendered only when opened: there are fifty tables. */
function PublishedTable({ source, table, ours }: ReportProps & { readonly table: Table }) {
  const { heading, columns, rows, kind } = table;
  const [open, setOpen] = useState(false);
  const entries = useMemo(
    () => (open && ours && kind === "figures" ? compareTable(source, table, ours) : null),
    [open, ours, kind, source, table],
  );
  return (
    <details className="bench-details" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {heading} <span className="muted small number">{plural(rows.length, "row")}</span>
      </summary>
      {open && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        <section className="table-scroll" tabIndex={0} aria-label={`${heading}, ${source.id}`}>
          <table className="table table-cards">
            <thead>
              <tr>
                {columns.map((column, index) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: columns never move, and may share a name
                  <th key={index} scope="col">
                    {column}
                  </th>
                ))}
                {entries && <th scope="col">Ours</th>}
              </tr>
            </thead>
            <tbody>
              {rows.map((row, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: rows never move
                <tr key={index}>
                  {row.map((cell, column) => (
                    // biome-ignore lint/suspicious/noArrayIndexKey: cells never move
                    <td key={column} className="number" data-label={columns[column]} data-quote="published">
                      {cell}
                    </td>
                  ))}
                  {entries && (
                    <td className="comparison" data-label="Ours" data-quote="recorded">
                      <OursCell entry={entries[index] ?? { at: "nothing" }} />
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </details>
  );
}

function OursCell({ entry }: { readonly entry: ComparedRow }) {
  switch (entry.at) {
    case "nothing":
      return null;
    case "absent":
      return <span className="muted small">Not measured: {entry.why}.</span>;
    case "measured":
      return [...groupBy(entry.answers, ({ like }) => like.reason)].map(([reason, answers]) => (
        <Answers key={reason} reason={reason} answers={answers} labelled={entry.answers.length > 1} />
      ));
  }
}

interface AnswersProps {
  /** Reason why the figures are not comparable; null if they are. */
  readonly reason: string | null;
  readonly answers: readonly Answer[];
  readonly labelled: boolean;
}

function Answers({ reason, answers, labelled }: AnswersProps) {
  const conditions = [...new Set(answers.flatMap(({ conditions }) => conditions))];
  return (
    <p>
      {answers.map(({ column, text }, index) => (
        <span key={column + text} className="number">
          {index > 0 && ", "}
          {labelled && <span className="muted small">{column} </span>}
          {text}
        </span>
      ))}
      {conditions.length > 0 && <span className="muted small"> ({conditions.join(", ")})</span>}
      {reason !== null && <span className="muted small">. Not comparable: {reason}</span>}
    </p>
  );
}
