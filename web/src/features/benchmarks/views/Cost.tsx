import { useId, useMemo, useState } from "react";
import { costAt, priceOf } from "../derive";
import "../parts.css";
import type { Run } from "../runs";
import { BarChart } from "./Charts";
import "./cost.css";
import { bySubject } from "./plots";
import type { ViewProps } from "./view";

/** Cost of inferences: as the reports state it, and at a price that the user enters. */
export function Cost({ runs }: ViewProps) {
  const id = useId();
  const [typed, setTyped] = useState("");
  const price = priceOf(typed);
  const priced = useMemo(
    () => (price === null ? runs : runs.map((run) => atPrice(run, price))),
    [runs, price],
  );
  return (
    <>
      <div className="bench-price">
        <div className="bench-select small">
          <label htmlFor={id}>Price of our machine, USD per hour</label>
          <input
            className="bench-field"
            id={id}
            inputMode="decimal"
            spellCheck={false}
            autoComplete="off"
            placeholder="0.192"
            aria-describedby={`${id}-about`}
            aria-invalid={typed !== "" && price === null}
            value={typed}
            onChange={({ target }) => setTyped(target.value)}
          />
        </div>
        <p id={`${id}-about`} className="muted small prose">
          {typed !== "" && price === null
            ? "This is not a price: enter a number of dollars above 0, with a point before the cents."
            : "Runs without a price show no cost until you enter one. The published prices are AWS on-demand for m6i.xlarge in us-east-1, $0.192 per hour, in February 2026."}
        </p>
      </div>
      <BarChart
        runs={priced}
        plot={bySubject("Cost of a million inferences", "money", ["cost.per_million"], priced)}
        note={
          price !== null &&
          "Runs that state no price use the entered one. Do not compare these costs: rent the machines and measure."
        }
      />
      <BarChart
        runs={priced}
        plot={bySubject("Inferences per hour", "count", ["cost.inferences_per_hour"], priced)}
        note="One text of 128 tokens at a time. Our figure is derived from its inferences per second."
      />
    </>
  );
}

function atPrice(run: Run, price: number): Run {
  return { ...run, figures: [...run.figures, ...costAt(price, run.figures)] };
}
