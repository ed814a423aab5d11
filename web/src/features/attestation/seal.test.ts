import type { AttestationReport, Problem, Row, Verdict } from "@clearseal/verifier";
import { describe, expect, it } from "vitest";
import type { Connected, Trust } from "../../verifier/messages";
import { face, INITIAL, open, type Seal, type SealEvent, shownRows, transition } from "./seal";

const problem: Problem = { code: "X", title: "x", detail: "x", remedy: "x" };

function row(id: number, change: Partial<Row> = {}): Row {
  return {
    id,
    name: `check-${id}`,
    stage: "document",
    title: `Check ${id}`,
    required: true,
    state: "passed",
    code: null,
    expected: "",
    observed: "",
    clause: "",
    micros: null,
    ...change,
  };
}

function report(verdict: Verdict, checks: Row[] = [row(1), row(2)]): AttestationReport {
  return {
    verdict,
    code: null,
    message: null,
    remedy: null,
    judgedAtMs: 1,
    checks,
    statements: [],
    policy: null,
    document: null,
    chain: [],
    manifest: null,
  };
}

function trust(verdict: Verdict, checks?: Row[]): Trust {
  return { report: report(verdict, checks), evidence: null, validUntilMs: 10 };
}

function through(...events: SealEvent[]): Seal {
  return events.reduce(transition, INITIAL);
}

const asked: SealEvent = { type: "asked", attempt: 1 };
const answer = (connected: Connected, attempt = 1): SealEvent => ({ type: "answered", attempt, connected });
const trusted = (verdict: Verdict, checks?: Row[]) =>
  answer({ status: verdict === "simulated" ? "simulated" : "trusted", trust: trust(verdict, checks) });

describe("the seal", () => {
  it("starts open and grey", () => {
    expect(face(INITIAL)).toBe("unknown");
    expect(open(INITIAL)).toBeNull();
  });

  it("closes green on a verified report, violet on a simulated one", () => {
    expect(face(through(asked, trusted("verified")))).toBe("verified");
    expect(face(through(asked, trusted("simulated")))).toBe("simulated");
    expect(open(through(asked, trusted("simulated")))).not.toBeNull();
  });

  it.each(["authentic", "signed", "refused", "Verified", "verified ", "great", "", undefined])(
    "is never green, and sends nothing, for the verdict %s",
    (verdict) => {
      const seal = through(asked, trusted(verdict as Verdict));
      expect(face(seal)).toBe("unknown");
      expect(open(seal)).toBeNull();
    },
  );

  it("is never green, and sends nothing, without a report", () => {
    const none = { report: undefined, evidence: null, validUntilMs: 10 } as unknown as Trust;
    const seal = through(asked, answer({ status: "trusted", trust: none }));
    expect(face(seal)).toBe("unknown");
    expect(open(seal)).toBeNull();
  });

  it("shows the verifier's verdict independent of the rows", () => {
    const rows = (state: Row["state"]) => [row(1), row(2, { state })];
    for (const state of ["not-run", "failed", "warning", "skipped", "passed"] as const) {
      expect(face(through(asked, trusted("verified", rows(state))))).toBe("verified");
      expect(face(through(asked, trusted("simulated", rows(state))))).toBe("simulated");
      const refused = answer({ status: "refused", report: report("refused", rows(state)), evidence: null });
      expect(face(through(asked, refused))).toBe("refused");
    }
  });

  it("distinguishes a refusal from an unreachable service", () => {
    expect(
      face(through(asked, answer({ status: "refused", report: report("refused"), evidence: null }))),
    ).toBe("refused");
    expect(face(through(asked, answer({ status: "unreachable", problem })))).toBe("unreachable");
  });

  it("ignores a late answer to an abandoned check", () => {
    const seal = through(asked, { type: "asked", attempt: 2 }, trusted("verified"));
    expect(seal).toEqual({ at: "checking", attempt: 2 });
  });

  it("ignores a second answer", () => {
    const refused = through(asked, answer({ status: "refused", report: report("refused"), evidence: null }));
    expect(transition(refused, trusted("verified"))).toBe(refused);
  });

  it("drops the old verdict while checking again", () => {
    const seal = through(asked, trusted("verified"), { type: "asked", attempt: 2 });
    expect(face(seal)).toBe("checking");
    expect(open(seal)).toBeNull();
  });

  it("turns grey when the worker is lost, from every state", () => {
    const lost: SealEvent = { type: "lost", attempt: 1, problem };
    const states = [
      through(asked),
      through(asked, trusted("verified")),
      through(asked, trusted("simulated"), { type: "expired", attempt: 1 }),
      through(asked, answer({ status: "unreachable", problem })),
    ];
    for (const seal of states) expect(face(transition(seal, lost))).toBe("unknown");
  });

  it("ignores the loss of an earlier check's worker", () => {
    const seal = through(asked, { type: "asked", attempt: 2 });
    expect(transition(seal, { type: "lost", attempt: 1, problem })).toBe(seal);
  });

  it("shows rows as not run, running, answered, and expired in turn", () => {
    const questions = [row(1, { state: "not-run" }), row(2, { state: "not-run" })];
    const states = (seal: Seal) => shownRows(seal, questions).map(({ state }) => state);
    expect(states(INITIAL)).toEqual(["not-run", "not-run"]);
    expect(states(through(asked))).toEqual(["running", "running"]);
    const checks = [row(1), row(2, { required: false, state: "warning" })];
    const seal = through(asked, trusted("verified", checks));
    expect(states(seal)).toEqual(["passed", "warning"]);
    const late = transition(seal, { type: "expired", attempt: 1 });
    expect(states(late)).toEqual(["expired", "warning"]);
    expect(states(transition(late, { type: "asked", attempt: 2 }))).toEqual(["running", "running"]);
    expect(states(transition(seal, { type: "lost", attempt: 1, problem }))).toEqual(["not-run", "not-run"]);
  });

  it("cannot send once expired", () => {
    const seal = through(asked, trusted("verified"), { type: "expired", attempt: 1 });
    expect(face(seal)).toBe("expired");
    expect(open(seal)).toBeNull();
  });

  it("adopts the report of a re-verification, and refuses when that was refused", () => {
    const start = through(asked, trusted("verified"));
    expect(face(transition(start, { type: "reattested", attempt: 1, trust: trust("simulated") }))).toBe(
      "simulated",
    );
    expect(face(transition(start, { type: "broken", attempt: 1, report: report("refused") }))).toBe(
      "refused",
    );
    const checking = through(asked);
    expect(transition(checking, { type: "reattested", attempt: 1, trust: trust("verified") })).toBe(checking);
  });
});
