import { type Shape, Swatch } from "./Swatch";

/** What a colour stands for; hollow marks are published figures. */
export interface Key {
  readonly text: string;
  readonly colour: string;
  readonly hollow: boolean;
}

export function Legend({ keys, shape }: { keys: readonly Key[]; shape: Shape }) {
  return (
    <ul className="legend small">
      {keys.map(({ text, ...look }) => (
        <li key={look.colour + text}>
          <Swatch {...look} shape={shape} />
          {text}
          {look.hollow && <span className="visually-hidden"> (published)</span>}
        </li>
      ))}
    </ul>
  );
}
