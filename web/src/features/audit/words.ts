import type { AuditJudgement, AuditSummary } from "@clearseal/verifier";
import { count, moment, plural } from "../../ui/format";
import type { IconName } from "../../ui/Icon";
import type { Face } from "../attestation/seal";
import { simulatedBecause } from "../policy/origin";
import { type Audit, type AuditFace, faceOf, tally } from "./audit";

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

/** What those hear who do not see the page: the verdict of one receipt, or how many have which. */
export function announcement(audit: Audit): string {
  switch (audit.at) {
    case "judged":
      return verdicts(audit.summaries);
    case "failed":
      return `${audit.problem.title}. ${audit.problem.remedy}`;
    case "judging":
      return audit.found.total > 100 ? `Judging ${count(audit.found.total)} receipts.` : "";
    default:
      return "";
  }
}

function verdicts(summaries: readonly AuditSummary[]): string {
  const [only] = summaries;
  if (only && summaries.length === 1) {
    const code = only.code ? `, ${only.code}` : "";
    return `Verdict of the receipt: ${AUDIT_FACES[faceOf(only)].word}${code}.`;
  }
  const judged = `${plural(summaries.length, "receipt")} judged`;
  const counts = tally(summaries);
  const each = FACES.filter((face) => counts[face] > 0).map(
    (face) => `${count(counts[face])} ${AUDIT_FACES[face].word}`,
  );
  return each.length > 0 ? `${judged}: ${each.join(", ")}.` : `${judged}.`;
}
