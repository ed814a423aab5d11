import type { AuditJudgement } from "@clearseal/verifier";
import { moment } from "../../ui/format";
import type { IconName } from "../../ui/Icon";
import type { Face } from "../attestation/seal";
import { simulatedBecause } from "../policy/origin";
import type { AuditFace } from "./audit";

/** The word for each face, its icon, and the seal that it is drawn as. */
export const AUDIT_FACES: Record<AuditFace, { word: string; icon: IconName; seal: Face }> = {
  verified: { word: "Verified", icon: "check", seal: "verified" },
  simulated: { word: "SIMULATED", icon: "dash", seal: "simulated" },
  signed: { word: "Signed", icon: "dash", seal: "unknown" },
  refused: { word: "Refused", icon: "cross", seal: "refused" },
  unknown: { word: "No verdict", icon: "circle", seal: "unknown" },
};

export const FACES = ["verified", "simulated", "signed", "refused", "unknown"] as const;

/** What the verdict means, in one or two sentences. Refusals speak in the verifier's own words. */
export function explain(face: AuditFace, { receipt, attestation }: AuditJudgement): string {
  const at = moment(receipt.judgedAtMs);
  switch (face) {
    case "verified":
      return `An enclave that ran release ${attestation?.policy?.release ?? "of the policy"} signed this receipt. Everything it rests on was valid on ${at}, when it was issued.`;
    case "simulated":
      return `The checks passed as of ${at}, but ${simulatedBecause(attestation)}. That proves nothing about who read the text.`;
    case "signed":
      return "Whoever holds the key that you named signed this receipt. Nothing here shows that an enclave holds it.";
    case "refused":
      return receipt.message ?? "The receipt did not pass.";
    default:
      return "The verifier gave no verdict that this page knows. Load the page again; if it stays, this build is broken.";
  }
}
