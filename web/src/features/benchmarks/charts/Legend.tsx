import "./legend.css";
import type { Look } from "./look";
import { type Shape, Swatch } from "./Swatch";

/** An entry of the legend. */
export interface Key {
  readonly text: string;
  readonly look: Look;
}

export function Legend({ keys, shape }: { keys: readonly Key[]; shape: Shape }) {
  return (
    <ul className="legend small">
      {keys.map(({ text, look }) => (
        <li key={look.colour + text}>
          <Swatch look={look} shape={shape} />
          {text}
          {look.hollow && <span className="visually-hidden"> (published)</span>}
        </li>
      ))}
    </ul>
  );
}
