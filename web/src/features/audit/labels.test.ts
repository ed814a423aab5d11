import type { AuditSummary } from "@clearseal/verifier";
import { describe, expect, it } from "vitest";
import type { Audit } from "./audit";
import { announcement } from "./labels";

function judged(...verdicts: readonly (readonly [verdict: string, code?: string])[]): Audit {
  const summaries = verdicts.map(
    ([verdict, code = null], index) => ({ index, verdict, code }) as AuditSummary,
  );
  const found = { total: summaries.length, policy: null, key: null, encoding: null };
  return { at: "judged", attempt: 1, found, summaries, tookMs: 1 };
}

describe("the announcement of an audit", () => {
  it("is the verdict of one receipt", () => {
    expect(announcement(judged(["verified"]))).toBe("Verdict of the receipt: Verified.");
    expect(announcement(judged(["refused", "PCR_MISMATCH"]))).toBe(
      "Verdict of the receipt: Refused, PCR_MISMATCH.",
    );
    expect(announcement(judged(["invented"]))).toBe("Verdict of the receipt: No verdict.");
  });

  it("is the number of receipts with each verdict", () => {
    const audit = judged(["simulated"], ["refused"], ["simulated"]);
    expect(announcement(audit)).toBe("3 receipts checked: 2 SIMULATED, 1 Refused.");
    expect(announcement(judged())).toBe("0 receipts checked.");
  });
});
