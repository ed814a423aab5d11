import { Button } from "./Button";
import { Prose } from "./Prose";
import "./refusals.css";

/** Something that was pasted or dropped, and not taken. */
export interface Refusal {
  readonly name: string;
  readonly why: string;
  readonly remedy: string;
  /** A way to go on all the same. */
  readonly otherwise?: { readonly label: string; readonly act: () => void };
}

/** Said aloud as soon as there is one. */
export function Refusals({ refusals }: { refusals: readonly Refusal[] }) {
  return (
    <div role="alert">
      {refusals.map(({ name, why, remedy, otherwise }) => (
        <div key={name} className="refusal">
          <p>
            <strong>{name} was not read.</strong> <Prose text={`${why} ${remedy}`} />
          </p>
          {otherwise && <Button onClick={otherwise.act}>{otherwise.label}</Button>}
        </div>
      ))}
    </div>
  );
}
