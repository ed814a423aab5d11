import type { AuditAppraisal, AuditSummary } from "@clearseal/verifier";
import { count, moment, plural } from "../../ui/format";
import type { IconName } from "../../ui/Icon";
import type { Face } from "../attestation/seal";
import { simulatedBecause } from "../policy/origin";
import { type Audit, type AuditFace, faceOf, tally } from "./audit";

/** Label and icon of each face, and the seal that represents it. */
export const AUDIT_FACES: Record<AuditFace, { label: string; icon: IconName; seal: Face }> = {
  verified: { label: "Verified", icon: "check", seal: "verified" },
  simulated: { label: "SIMULATED", icon: "dash", seal: "simulated" },
  signed: { label: "Signed", icon: "dash", seal: "unknown" },
  refused: { label: "Refused", icon: "cross", seal: "refused" },
  unknown: { label: "No verdict", icon: "circle", seal: "unknown" },
};

export const FACES = ["verified", "simulated", "signed", "refused", "unknown"] as const;

/** Explains the verdict in one or two sentences. Refusals use the verifier's own message. */
export function explain(face: AuditFace, { receipt, attestation }: AuditAppraisal): string {
  const at = moment(receipt.judgedAtMs);
  switch (face) {
    case "verified":
      return `An enclave that ran release ${attestation?.policy?.release ?? "of the policy"} signed this receipt. Its evidence was valid on ${at}, when the receipt was issued.`;
    case "simulated":
      return `The checks passed as of ${at}, but ${simulatedBecause(attestation)}. That proves nothing about who read the text.`;
    case "signed":
      return "The key that you entered signed this receipt. Nothing here proves that an enclave holds the key.";
    case "refused":
      return receipt.message ?? "The receipt did not pass.";
    default:
      return "The verifier gave an unknown verdict. Reload the page. If this repeats, this build of the page is broken.";
  }
}

/** Announcement for screen readers: the verdict of one receipt, or the number of receipts with each verdict. */
export function announcement(audit: Audit): string {
  switch (audit.at) {
    case "judged":
      return announceVerdicts(audit.summaries);
    case "failed":
      return `${audit.problem.title}. ${audit.problem.remedy}`;
    case "judging":
      return audit.found.total > 100 ? `Checking ${count(audit.found.total)} receipts.` : "";
    default:
      return "";
  }
}

function announceVerdicts(summaries: readonly AuditSummary[]): string {
  const [only] = summaries;
  if (only && summaries.length === 1) {
    const code = only.code ? `, ${only.code}` : "";
    return `Verdict of the receipt: ${AUDIT_FACES[faceOf(only)].label}${code}.`;
  }
  const checked = `${plural(summaries.length, "receipt")} checked`;
  const counts = tally(summaries);
  const each = FACES.filter((face) => counts[face] > 0).map(
    (face) => `${count(counts[face])} ${AUDIT_FACES[face].label}`,
  );
  return each.length > 0 ? `${checked}: ${each.join(", ")}.` : `${checked}.`;
}
