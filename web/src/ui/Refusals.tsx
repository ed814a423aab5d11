import { Prose } from "./Prose";

/** Something that was pasted or dropped, and not taken. */
export interface Refusal {
  readonly name: string;
  readonly why: string;
  readonly remedy: string;
}

/** Said aloud as soon as there is one. */
export function Refusals({ refusals }: { refusals: readonly Refusal[] }) {
  return (
    <div role="alert">
      {refusals.map(({ name, why, remedy }) => (
        <p key={name} className="refusal">
          <strong>{name} was not read.</strong> <Prose text={`${why} ${remedy}`} />
        </p>
      ))}
    </div>
  );
}
