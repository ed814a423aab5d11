import { type ChangeEvent, useRef } from "react";
import { Button } from "../../ui/Button";
import { Refusals } from "../../ui/Refusals";
import { usePolicies } from "./Provenance";
import "./policy.css";
import { type PolicyView, policies } from "./policy-store";

/** The trust policy in use, and the control that chooses another. */
export function PolicyChoice() {
  const view = usePolicies();
  return (
    <section className="policy-choice" aria-label="Trust policy">
      <p>
        <CurrentPolicy view={view} />
      </p>
      <div className="policy-actions">
        <PolicyPicker />
        {view.chosen && (
          <Button icon="repeat" onClick={policies.stop}>
            {typeof view.builtIn === "string" ? "Use the built-in policy" : "Stop using it"}
          </Button>
        )}
      </div>
      <Refusals refusals={view.refusal ? [view.refusal] : []} />
      <p className="muted tiny">
        The policy decides which code you trust. Get it from someone you trust, never from the service or with
        a receipt. It stays in this tab's memory.
      </p>
    </section>
  );
}

/** The only control that chooses a trust policy. It accepts neither drop nor paste. */
export function PolicyPicker() {
  const picker = useRef<HTMLInputElement>(null);
  const onPick = (event: ChangeEvent<HTMLInputElement>) => {
    const [file] = event.target.files ?? [];
    event.target.value = "";
    if (file) void policies.choose(file);
  };
  return (
    <>
      <Button icon="file" onClick={() => picker.current?.click()}>
        Choose a trust policy…
      </Button>
      <input
        ref={picker}
        type="file"
        hidden
        accept=".json,application/json"
        aria-label="Choose a trust policy"
        onChange={onPick}
      />
    </>
  );
}

function CurrentPolicy({ view: { chosen, builtIn } }: { view: PolicyView }) {
  if (chosen) {
    return (
      <>
        Trust policy in use: <strong>{chosen.name}</strong>, a policy that you chose.
        {typeof builtIn === "string" && (
          <>
            {" "}
            It replaces the policy built into this page, <strong>{builtIn}</strong>.
          </>
        )}
      </>
    );
  }
  if (builtIn === undefined) return "The verifier is starting.";
  if (builtIn === null) {
    return "No trust policy is built into this page. Unless you choose one, no verdict is better than SIMULATED.";
  }
  return (
    <>
      Trust policy in use: <strong>{builtIn}</strong>, the policy built into this page.
    </>
  );
}
