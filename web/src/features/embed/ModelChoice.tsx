import { useId } from "react";
import "./model-choice.css";
import { describeModel, type OfferedModel } from "./models";

interface ModelChoiceProps {
  /** Models that embed. */
  readonly models: readonly OfferedModel[];
  readonly model: string;
  /** Model that the trust policy demands. */
  readonly ofPolicy: string;
  readonly disabled: boolean;
  readonly onChoose: (model: string) => void;
}

/** Offers the embedding models of a service with several. */
export function ModelChoice({ models, model, ofPolicy, disabled, onChoose }: ModelChoiceProps) {
  const id = useId();
  const described = models.find((one) => one.id === model);
  return (
    <div className="model-choice">
      <label className="text-label" htmlFor={id}>
        Model
      </label>
      <select
        id={id}
        value={model}
        disabled={disabled}
        aria-describedby={`${id}-note`}
        onChange={(event) => onChoose(event.target.value)}
      >
        {models.map((one) => (
          <option key={one.id} value={one.id}>
            {one.id}
          </option>
        ))}
      </select>
      <p id={`${id}-note`} className="muted small">
        {described && describeModel(described)}{" "}
        {model !== ofPolicy &&
          `The trust policy demands ${ofPolicy}. This tab takes the hash of ${model} from the verified manifest; to audit its receipts, use a policy that demands that hash.`}
      </p>
    </div>
  );
}
