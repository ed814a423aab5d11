import type { AuditSummary } from "@clearseal/verifier";
import { describe, expect, it } from "vitest";
import { type Audit, type AuditEvent, faceOf, NOTHING, tally, transition } from "./audit";
import { describeGaps, sequences } from "./sequence";

let places = 0;

function summary(change: Partial<AuditSummary> = {}): AuditSummary {
  places += 1;
  return {
    index: places,
    line: places,
    verdict: "simulated",
    attested: "simulated",
    basis: "bundle",
    unsettled: 0,
    code: null,
    sha256: `hash-${places}`,
    signer: "i-1-enc1",
    sequence: places,
    issuedAt: 1,
    modelId: "m",
    ...change,
  };
}

const found = { total: 2, policy: null, key: null, encoding: null };
const problem = { code: "X", title: "x", detail: "x", remedy: "x" };

function through(...events: AuditEvent[]): Audit {
  return events.reduce(transition, NOTHING);
}

const asked: AuditEvent = { type: "asked", attempt: 1 };
const replied = (reply: Extract<AuditEvent, { type: "replied" }>["reply"]): AuditEvent => ({
  type: "replied",
  reply,
});
const judging = [asked, replied({ kind: "found", attempt: 1, found })];
const both = replied({ kind: "summaries", attempt: 1, summaries: [summary(), summary()] });

describe("an audit", () => {
  it("goes from reading to judging to judged", () => {
    expect(through(asked).at).toBe("reading");
    expect(through(...judging).at).toBe("judging");
    expect(through(...judging, both, replied({ kind: "judged", attempt: 1, tookMs: 5 })).at).toBe("judged");
  });

  it("has no verdict if one receipt is missing", () => {
    const one = replied({ kind: "summaries", attempt: 1, summaries: [summary()] });
    const audit = through(...judging, one, replied({ kind: "judged", attempt: 1, tookMs: 5 }));
    expect(audit).toMatchObject({ at: "failed", problem: { code: "AUDIT_INCOMPLETE" } });
  });

  it("ignores an earlier attempt", () => {
    const audit = through(...judging, { type: "asked", attempt: 2 });
    expect(transition(audit, both)).toBe(audit);
    expect(transition(audit, replied({ kind: "judged", attempt: 1, tookMs: 5 }))).toBe(audit);
  });

  it("loses its verdicts with the worker, from every state", () => {
    for (const events of [[asked], judging, [...judging, both]]) {
      expect(transition(through(...events), { type: "lost", problem }).at).toBe("failed");
    }
    expect(transition(NOTHING, { type: "lost", problem })).toBe(NOTHING);
  });
});

describe("a receipt's face", () => {
  it.each(["verified", "simulated", "signed", "refused"] as const)("is the verdict %s itself", (verdict) => {
    expect(faceOf(summary({ verdict }))).toBe(verdict);
    // The page uses the verifier's verdict, and never derives one from basis, code or rows.
    expect(faceOf(summary({ verdict, attested: null, basis: "named-key", code: "X", sha256: null }))).toBe(
      verdict,
    );
  });

  it.each(["authentic", "Verified", "verified ", "great", "", undefined])(
    "is never green for the verdict %s",
    (verdict) => expect(faceOf(summary({ verdict: verdict as "verified" }))).toBe("unknown"),
  );

  it("is never green without a appraisal", () => {
    expect(faceOf(null)).toBe("unknown");
    expect(faceOf(undefined)).toBe("unknown");
  });

  it("is counted", () => {
    expect(tally([summary(), summary({ code: "SIG_FAILED", verdict: "refused" })])).toMatchObject({
      simulated: 1,
      refused: 1,
      verified: 0,
    });
  });
});

describe("sequences", () => {
  const numbered = (sequence: number, change: Partial<AuditSummary> = {}) => summary({ sequence, ...change });

  it("finds gaps, repeats and copies in any order", () => {
    const [one] = sequences([
      numbered(9),
      numbered(3, { sha256: "a" }),
      numbered(4),
      numbered(3, { sha256: "b" }),
      numbered(4, { sha256: "copy" }),
      numbered(7, { sha256: "c" }),
      numbered(7, { sha256: "c" }),
    ]);
    expect(one).toMatchObject({ first: 3, last: 9, receipts: 6, missing: 3, copies: 1 });
    expect(one?.gaps).toEqual([
      [5, 6],
      [8, 8],
    ]);
    expect(one?.repeats.map(({ sequence }) => sequence)).toEqual([3, 4]);
  });

  it("counts the earlier receipts of each key that are missing", () => {
    const all = sequences([
      numbered(1),
      numbered(2),
      numbered(6, { signer: "i-2" }),
      numbered(7, { signer: "i-2" }),
      numbered(2, { signer: "i-3" }),
    ]);
    expect(all.map(({ signer, first, missing }) => [signer, first, missing])).toEqual([
      ["i-1-enc1", 1, 0],
      ["i-2", 6, 0],
      ["i-3", 2, 0],
    ]);
    expect(all.map(describeGaps)).toEqual([
      ["No gap"],
      ["5 earlier receipts (1 to 5) are not here"],
      ["1 earlier receipt (1) is not here"],
    ]);
  });

  it("reports receipts that are missing before and between", () => {
    const [one] = sequences([numbered(3), numbered(5), numbered(9)]);
    expect(one && describeGaps(one)).toEqual([
      "2 earlier receipts (1 to 2) are not here",
      "2 gaps, 4 receipts missing: 4; 6 to 8",
    ]);
  });

  it("separates enclaves, and ignores refused receipts", () => {
    const all = sequences([
      numbered(1),
      numbered(2, { signer: "i-2" }),
      numbered(100, { verdict: "refused", code: "SIG_FAILED" }),
    ]);
    expect(all.map(({ signer, last }) => [signer, last])).toEqual([
      ["i-1-enc1", 1],
      ["i-2", 2],
    ]);
  });
});
