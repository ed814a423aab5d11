import type { AttestationReport } from "@clearseal/verifier";

/** Who chose a policy, by the words of the verifier's reports. */
export type Origin = "built-in" | "chosen" | "evidence";

/** Ends the sentence *Judged …*. */
export const ORIGIN_WORDS: Record<Origin, string> = {
  "built-in": "by the policy built into this page",
  chosen: "by a policy that you chose",
  evidence: "by a policy that came with the evidence",
};

/** Who chose the policy of a report; null where none was applied, or where the verifier's word is not known here. */
export function originOf(report: AttestationReport | null | undefined): Origin | null {
  return knownOrigin(report?.policy?.origin);
}

/** The same for the bare word. */
export function knownOrigin(origin: string | null | undefined): Origin | null {
  return origin === "built-in" || origin === "chosen" || origin === "evidence" ? origin : null;
}
