import { type ChangeEvent, useRef, useState, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import { chosenPolicy, MAX_POLICY_BYTES } from "../../verifier/chosen-policy";
import "./policy-choice.css";

/**
 * The one control with which a person chooses a trust policy. What is pasted, dropped, linked or loaded elsewhere counts as
 * evidence and never gets here.
 */
export function PolicyChoice() {
  const chosen = useSyncExternalStore(chosenPolicy.subscribe, chosenPolicy.get);
  const [refusal, setRefusal] = useState("");
  const picker = useRef<HTMLInputElement>(null);

  const pick = async ({ target }: ChangeEvent<HTMLInputElement>) => {
    const file = target.files?.[0];
    target.value = "";
    if (!file) return;
    if (file.size > MAX_POLICY_BYTES) {
      setRefusal(`${file.name} is larger than ${MAX_POLICY_BYTES / 1024} KiB: no trust policy is.`);
      return;
    }
    setRefusal("");
    chosenPolicy.choose({ file: file.name, json: await file.text() });
  };

  return (
    <div className="policy-choice small">
      {chosen && (
        <p>
          Judged by the trust policy that <strong>you chose</strong>: {chosen.file}. Until you stop using it,
          it replaces any that is built into this page.
        </p>
      )}
      {refusal !== "" && <p role="alert">{refusal}</p>}
      <div className="policy-choice-actions">
        <Button kind="quiet" icon="file" onClick={() => picker.current?.click()}>
          {chosen ? "Choose another trust policy" : "Choose a trust policy"}
        </Button>
        <input
          ref={picker}
          type="file"
          hidden
          accept=".json,application/json"
          aria-label="Choose a trust policy"
          onChange={(event) => void pick(event)}
        />
        {chosen && (
          <Button kind="quiet" icon="cross" onClick={() => chosenPolicy.choose(null)}>
            Stop using it
          </Button>
        )}
      </div>
    </div>
  );
}

/** Says who chose the policy of a report: "the policy that …". */
export function whoChose(origin: string): string {
  switch (origin) {
    case "built-in":
      return "is built into this page";
    case "chosen":
      return "you chose";
    default:
      return "came with the evidence";
  }
}
