import type { AuditSummary } from "@clearseal/verifier";
import { describe, expect, it } from "vitest";
import { type Audit, type AuditEvent, faceOf, NOTHING, tally, transition } from "./audit";
import { sequences } from "./sequence";

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

  it("has no verdict where one receipt was left out", () => {
    const one = replied({ kind: "summaries", attempt: 1, summaries: [summary()] });
    const audit = through(...judging, one, replied({ kind: "judged", attempt: 1, tookMs: 5 }));
    expect(audit).toMatchObject({ at: "failed", problem: { code: "AUDIT_INCOMPLETE" } });
  });

  it("hears nothing of an earlier attempt", () => {
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
  it.each<[string, Partial<AuditSummary>, string]>([
    ["everything verified", { verdict: "verified", attested: "verified" }, "verified"],
    ["under a development root", {}, "simulated"],
    ["a key named by hand", { verdict: "signed", attested: null, basis: "named-key" }, "signed"],
    ["what no receipt can be", { verdict: "authentic", attested: "authentic" }, "unknown"],
    ["refused", { verdict: "refused", code: "SIG_FAILED" }, "refused"],
    ["no key", { verdict: "refused", code: "NO_KEY", basis: "none" }, "unknown"],
    ["no policy", { verdict: "refused", code: "NO_POLICY", basis: "none" }, "unknown"],
    ["unreadable", { verdict: "refused", code: "NOT_RECOGNISED", sha256: null }, "unknown"],
    ["a verdict that nobody knows", { verdict: "great" as "verified" }, "unknown"],
  ])("%s", (_, change, face) => expect(faceOf(summary(change))).toBe(face));

  it("is Rust's verdict, whatever else the summary says", () => {
    const odd: Partial<AuditSummary> = { attested: null, basis: "none", unsettled: 7 };
    for (const verdict of ["verified", "simulated", "signed", "refused"] as const) {
      expect(faceOf(summary({ ...odd, verdict }))).toBe(verdict);
    }
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

  it("finds gaps, repeats and copies, whatever the order", () => {
    const [one] = sequences([
      numbered(9),
      numbered(3, { sha256: "a" }),
      numbered(4),
      numbered(3, { sha256: "b" }),
      numbered(4, { sha256: "copy" }),
      numbered(7, { sha256: "c" }),
      numbered(7, { sha256: "c" }),
    ]);
    expect(one).toMatchObject({ first: 3, last: 9, receipts: 6, missing: 3, before: 3, copies: 1 });
    expect(one?.gaps).toEqual([
      [5, 6],
      [8, 8],
    ]);
    expect(one?.repeats.map(({ sequence }) => sequence)).toEqual([3, 4]);
  });

  it("keeps enclaves apart, and believes no refused receipt", () => {
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
