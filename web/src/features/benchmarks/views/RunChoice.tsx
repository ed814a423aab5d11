import { useId } from "react";
import { nameOf } from "../names";
import "../parts.css";
import type { Run } from "../runs";

/** A select with more options is unusable. */
const MAX_OPTIONS = 200;

interface RunChoiceProps {
  readonly label: string;
  readonly runs: readonly Run[];
  readonly chosen: Run;
  readonly onChoose: (key: string) => void;
}

/** Selects one run by name. */
export function RunChoice({ label, runs, chosen, onChoose }: RunChoiceProps) {
  const id = useId();
  const shown = runs.slice(0, MAX_OPTIONS);
  return (
    <div className="bench-select small">
      <label htmlFor={id}>{label}</label>
      <select
        className="bench-field"
        id={id}
        value={chosen.key}
        onChange={({ target }) => onChoose(target.value)}
      >
        {(shown.includes(chosen) ? shown : [chosen, ...shown]).map((run) => (
          <option key={run.key} value={run.key}>
            {nameOf(run)}
          </option>
        ))}
      </select>
    </div>
  );
}
