/** What a colour stands for; hollow marks are published figures. */
export interface Key {
  readonly text: string;
  readonly colour: string;
  readonly hollow: boolean;
}

export function Legend({ keys, dots = false }: { keys: readonly Key[]; dots?: boolean }) {
  return (
    <ul className="legend small">
      {keys.map(({ text, colour, hollow }) => (
        <li key={colour + text}>
          <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
            <rect
              x="1.5"
              y="1.5"
              width="9"
              height="9"
              rx={dots ? 4.5 : 1}
              fill={colour}
              fillOpacity={hollow ? 0.12 : 1}
              stroke={colour}
              strokeWidth="1.5"
            />
          </svg>
          {text}
          {hollow && <span className="visually-hidden"> (published)</span>}
        </li>
      ))}
    </ul>
  );
}
