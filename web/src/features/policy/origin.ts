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

/** Why a verdict is *simulated*: ends the sentence *The checks passed, but …*. */
export function simulatedBecause(report: AttestationReport | null | undefined): string {
  const development = report?.policy?.root === "development";
  const evidence = originOf(report) === "evidence";
  if (development && evidence) return "under a development root, and by a policy that came with the evidence";
  if (development) return "under a development root";
  if (evidence) return "by a policy that came with the evidence";
  return "they were not made under AWS's root by a policy of yours or of this page";
}
