import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import type { Face } from "../attestation/seal";
import "./cut.css";
import { MAX_ITEMS } from "./input";
import { describeLanguage } from "./language";
import type { Run } from "./run";
import "./submit.css";

interface SubmitProps {
  readonly count: number;
  /** Name of one item: line, record or item. */
  readonly noun: string;
  readonly face: Face;
  /** Model of the open session; null while nothing can be sent. */
  readonly model: string | null;
  readonly run: Run;
  /** Note about texts that are longer than the model reads; null if there are none. */
  readonly length: string | null;
  readonly onEmbed: () => void;
}

/** Reason why nothing can be sent; null if it can. */
export function blockedBy({
  count,
  face,
  ready,
}: Pick<SubmitProps, "count" | "face"> & {
  /** The session is open and names a model. */
  readonly ready: boolean;
}): string | null {
  if (!ready || (face !== "verified" && face !== "simulated")) return WAITING[face];
  if (count === 0) return "Waits for text.";
  if (count <= MAX_ITEMS) return null;
  return `This page embeds at most ${plural(MAX_ITEMS, "item")} at once; the command clearseal embed takes more.`;
}

/** The only button that sends. It states why it is disabled, and which texts will be cut. */
export function Submit({ count, noun, face, model, run, length, onEmbed }: SubmitProps) {
  const running = run.at === "running";
  const blocked = blockedBy({ count, face, ready: model !== null });
  return (
    <div className="submit">
      {length && <p className="cut-note small">{length}</p>}
      <Button
        kind="primary"
        disabled={blocked !== null}
        // A disabled button loses the focus.
        aria-disabled={running || undefined}
        aria-describedby="submit-note"
        onClick={onEmbed}
      >
        {count === 0 ? "Embed" : `Embed ${plural(count, noun)}`}
      </Button>
      <p id="submit-note" className="small submit-note">
        {blocked ??
          (face === "simulated" ? (
            <>
              <strong>SIMULATED.</strong> The text is sealed, but this enclave proves nothing.
            </>
          ) : (
            "This tab seals the text to the key that it verified above."
          ))}{" "}
        {model !== null && describeLanguage(model)}
      </p>
    </div>
  );
}

const WAITING: Record<Face, string> = {
  unknown: "Waits for the seal: this tab sends nothing before it has verified the enclave.",
  checking: "Waits for the seal: this tab is verifying the enclave.",
  verified: "Waits for the service to name its model.",
  simulated: "Waits for the service to name its model.",
  refused: "The seal is broken: this tab sends nothing to this enclave.",
  unreachable: "Waits for the seal: the service cannot be reached.",
  expired: "Waits for the seal: the verification has expired. Verify again first.",
};
