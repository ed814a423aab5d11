import type { AttestationReport } from "@clearseal/verifier";

/** Origin of a policy, as the verifier's reports state it. */
export type Origin = "built-in" | "chosen" | "evidence";

/** Completes "Checked …". */
export const ORIGIN_LABELS: Record<Origin, string> = {
  "built-in": "under the policy built into this page",
  chosen: "under a policy that you chose",
  evidence: "under a policy that came with the evidence",
};

/** Origin of a report's policy; null if none was applied or the value is unknown to this page. */
export function originOf(report: AttestationReport | null | undefined): Origin | null {
  return knownOrigin(report?.policy?.origin);
}

/** The same for a bare value. */
export function knownOrigin(origin: string | null | undefined): Origin | null {
  return origin === "built-in" || origin === "chosen" || origin === "evidence" ? origin : null;
}

/** Reason for the verdict *simulated*; completes "The checks passed, but …". */
export function simulatedBecause(report: AttestationReport | null | undefined): string {
  const development = report?.policy?.root === "development";
  const evidence = originOf(report) === "evidence";
  if (development && evidence)
    return "under a development root, and under a policy that came with the evidence";
  if (development) return "under a development root";
  if (evidence) return "under a policy that came with the evidence";
  return "not under AWS's root with a policy of yours or of this page";
}
