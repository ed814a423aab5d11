import { Button } from "./Button";
import { Prose } from "./Prose";
import "./refusals.css";

/** Pasted or dropped input that was rejected. */
export interface Refusal {
  readonly name: string;
  readonly why: string;
  readonly remedy: string;
  /** A way to continue anyway. */
  readonly alternative?: { readonly label: string; readonly act: () => void };
}

/** Screen readers announce each refusal. */
export function Refusals({ refusals }: { refusals: readonly Refusal[] }) {
  return (
    <div role="alert">
      {refusals.map(({ name, why, remedy, alternative }) => (
        <div key={name} className="refusal">
          <p>
            <strong>{name} was not read.</strong> <Prose text={`${why} ${remedy}`} />
          </p>
          {alternative && <Button onClick={alternative.act}>{alternative.label}</Button>}
        </div>
      ))}
    </div>
  );
}
