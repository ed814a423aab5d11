import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import type { Face } from "../attestation/seal";
import "./cut.css";
import { MAX_ITEMS } from "./input";
import type { Run } from "./run";
import "./submit.css";

interface SubmitProps {
  readonly count: number;
  /** What one of them is called. */
  readonly noun: string;
  readonly face: Face;
  /** The session is open and names a model. */
  readonly ready: boolean;
  readonly run: Run;
  /** What is said about texts that are longer than the model reads. */
  readonly length: string | null;
  readonly onEmbed: () => void;
}

/** Why nothing can be sent; null where it can. */
export function waitsFor({
  count,
  face,
  ready,
}: Pick<SubmitProps, "count" | "face" | "ready">): string | null {
  if (!ready || (face !== "verified" && face !== "simulated")) return WAITING[face];
  if (count === 0) return "Waits for text.";
  if (count <= MAX_ITEMS) return null;
  return `At most ${plural(MAX_ITEMS, "item")} at once; the command clearseal embed takes more.`;
}

/** The one button that sends. It says what it waits for while it cannot, and what will be cut. */
export function Submit({ count, noun, face, ready, run, length, onEmbed }: SubmitProps) {
  const running = run.at === "running";
  const waits = waitsFor({ count, face, ready });
  return (
    <div className="submit">
      {length && <p className="cut-note small">{length}</p>}
      <Button
        kind="primary"
        disabled={waits !== null || running}
        aria-describedby="submit-note"
        onClick={onEmbed}
      >
        {count === 0 ? "Embed" : `Embed ${plural(count, noun)}`}
      </Button>
      <p id="submit-note" className="small submit-note">
        {waits ??
          (face === "simulated" ? (
            <>
              <strong>SIMULATED.</strong> Sealed, but to an enclave that proves nothing.
            </>
          ) : (
            "Sealed in this tab, to the key that was verified above."
          ))}
      </p>
    </div>
  );
}

const WAITING: Record<Face, string> = {
  unknown: "Waits for the seal: nothing leaves this tab before the enclave is verified.",
  checking: "Waits for the seal: the enclave is being checked.",
  verified: "Waits for the service to name its model.",
  simulated: "Waits for the service to name its model.",
  refused: "The seal is broken: nothing will be sent to this enclave.",
  unreachable: "Waits for the seal: the service cannot be reached.",
  expired: "Waits for the seal: the proof has expired. Verify again first.",
};
