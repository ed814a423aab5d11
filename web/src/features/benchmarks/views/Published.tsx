import type { Source } from "../runs";
import type { ViewProps } from "./views";

/** Every table of every report, as it stands there. */
export function Published({ sources }: ViewProps) {
  return sources
    .filter(({ tables }) => tables.length > 0)
    .map((source) => <Report key={source.id} source={source} />);
}

function Report({ source: { id, report, tables } }: { source: Source }) {
  return (
    <section className="bench-part" aria-labelledby={`report-${id} report-${id}-where`}>
      <h3 id={`report-${id}`}>{report?.title ?? id}</h3>
      {/* Two reports may have one title. */}
      <p id={`report-${id}-where`} className="muted small">
        {report?.date ? `${report.date}, ` : "Date not stated, "}
        <code>{id}</code>
      </p>
      {tables.map((table) => (
        <details key={table.id} className="bench-details">
          <summary>
            {table.heading} <span className="muted small number">{table.rows.length} rows</span>
          </summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
          <section className="table-scroll" tabIndex={0} aria-label={`${table.heading}, ${id}`}>
            <table className="table">
              <thead>
                <tr>
                  {table.columns.map((column, index) => (
                    // biome-ignore lint/suspicious/noArrayIndexKey: columns never move, and may share a name
                    <th key={index} scope="col">
                      {column}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {table.rows.map((row, index) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: rows never move
                  <tr key={index}>
                    {row.map((cell, column) => (
                      // biome-ignore lint/suspicious/noArrayIndexKey: cells never move
                      <td key={column} className="number">
                        {cell}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        </details>
      ))}
      {report?.statements && (
        <details className="bench-details">
          <summary>
            Figures in sentences <span className="muted small number">{report.statements.length}</span>
          </summary>
          <ul className="bench-list small">
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
