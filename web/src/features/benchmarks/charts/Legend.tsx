import type { Series } from "./plot";

/** Which colour is which run; a hollow mark is a published figure. */
export function Legend({ series }: { series: readonly Series[] }) {
  return (
    <ul className="legend small">
      {series.map(({ run, colour, hollow }) => (
        <li key={run.key}>
          <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
            <rect
              x="1.5"
              y="1.5"
              width="9"
              height="9"
              rx="1"
              fill={colour}
              fillOpacity={hollow ? 0.12 : 1}
              stroke={colour}
              strokeWidth="1.5"
            />
          </svg>
          {run.title}
          {hollow && <span className="visually-hidden"> (published)</span>}
        </li>
      ))}
    </ul>
  );
}
