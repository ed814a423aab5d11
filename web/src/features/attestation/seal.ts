import type { AttestationReport, Evidence, Problem, Row, RowState } from "@clearseal/verifier";
import type { Connected, Trust } from "../../verifier/messages";

/** Where the seal stands. `attempt` numbers the checks of this tab, so that a late answer can be told from ours. */
export type Seal =
  | { readonly at: "unknown"; readonly attempt: number; readonly problem: Problem | null }
  | { readonly at: "checking"; readonly attempt: number }
  | { readonly at: "trusted"; readonly attempt: number; readonly trust: Trust }
  | { readonly at: "expired"; readonly attempt: number; readonly trust: Trust }
  | {
      readonly at: "refused";
      readonly attempt: number;
      readonly report: AttestationReport;
      readonly evidence: Evidence | null;
    }
  | { readonly at: "unreachable"; readonly attempt: number; readonly problem: Problem };

export type SealEvent =
  | { readonly type: "asked"; readonly attempt: number }
  | { readonly type: "answered"; readonly attempt: number; readonly connected: Connected }
  | { readonly type: "failed"; readonly attempt: number; readonly problem: Problem }
  | { readonly type: "attested-anew"; readonly attempt: number; readonly trust: Trust }
  | { readonly type: "broken"; readonly attempt: number; readonly report: AttestationReport }
  | { readonly type: "expired"; readonly attempt: number }
  | { readonly type: "lost"; readonly attempt: number; readonly problem: Problem };

/** How a seal is drawn and named. Only `verified` is ever green. */
export type Face = "unknown" | "checking" | "verified" | "simulated" | "refused" | "unreachable" | "expired";

export const UNASKED: Seal = { at: "unknown", attempt: 0, problem: null };

/** Pure. An event of an abandoned check changes nothing. */
export function transition(seal: Seal, event: SealEvent): Seal {
  if (event.type === "asked") {
    return event.attempt > seal.attempt ? { at: "checking", attempt: event.attempt } : seal;
  }
  if (event.attempt !== seal.attempt) return seal;
  const { attempt } = seal;
  switch (event.type) {
    case "answered":
      return seal.at === "checking" ? answered(attempt, event.connected) : seal;
    case "failed":
      return seal.at === "checking" ? { at: "unknown", attempt, problem: event.problem } : seal;
    case "attested-anew":
      return seal.at === "trusted" || seal.at === "expired" ? trusted(attempt, event.trust) : seal;
    case "broken":
      return seal.at === "trusted" || seal.at === "expired"
        ? { at: "refused", attempt, report: event.report, evidence: null }
        : seal;
    case "expired":
      return seal.at === "trusted" ? { at: "expired", attempt, trust: seal.trust } : seal;
    case "lost":
      return { at: "unknown", attempt, problem: event.problem };
  }
}

/** The session's basis while something may be sent; null at every other time. */
export function open(seal: Seal): Trust | null {
  return seal.at === "trusted" ? seal.trust : null;
}

export function face(seal: Seal): Face {
  if (seal.at !== "trusted") return seal.at;
  const { verdict } = seal.trust.report;
  return verdict === "verified" || verdict === "simulated" ? verdict : "unknown";
}

/** The states of a row that Rust knows, and the two that only a page can: nobody has answered yet, and no longer valid. */
export type ShownState = RowState | "running" | "expired";

export interface ShownRow extends Omit<Row, "state"> {
  readonly state: ShownState;
}

/**
 * The rows to show. While a check runs, every question is under way; once the evidence has run out, what passed has
 * expired and counts for nothing; without a verifier, nothing has been run.
 */
export function shownRows(seal: Seal, questions: readonly Row[]): readonly ShownRow[] {
  if (seal.at === "checking") return questions.map((row) => ({ ...row, state: "running" }));
  const rows = reportOf(seal)?.checks ?? questions;
  if (seal.at !== "expired") return rows;
  return rows.map((row) => (row.state === "passed" ? { ...row, state: "expired" } : row));
}

/** The report to show, where there is one. */
export function reportOf(seal: Seal): AttestationReport | null {
  switch (seal.at) {
    case "trusted":
    case "expired":
      return seal.trust.report;
    case "refused":
      return seal.report;
    default:
      return null;
  }
}

export function evidenceOf(seal: Seal): Evidence | null {
  switch (seal.at) {
    case "trusted":
    case "expired":
      return seal.trust.evidence;
    case "refused":
      return seal.evidence;
    default:
      return null;
  }
}

export function problemOf(seal: Seal): Problem | null {
  return seal.at === "unknown" || seal.at === "unreachable" ? seal.problem : null;
}

function answered(attempt: number, connected: Connected): Seal {
  switch (connected.status) {
    case "trusted":
      return trusted(attempt, connected.trust);
    case "refused":
      return { at: "refused", attempt, report: connected.report, evidence: connected.evidence };
    case "unreachable":
      return { at: "unreachable", attempt, problem: connected.problem };
  }
}

/** The verdict is Rust's, word for word. One that this page does not know opens nothing. */
function trusted(attempt: number, trust: Trust): Seal {
  const { verdict } = trust.report;
  if (verdict === "verified" || verdict === "simulated") return { at: "trusted", attempt, trust };
  return {
    at: "unknown",
    attempt,
    problem: {
      code: "VERDICT_UNKNOWN",
      title: "The verifier's answer is not understood",
      detail: "It gave a session, and a verdict under which this page sends nothing.",
      remedy: "Send nothing. Load the page anew; if it stays, this build of the page is broken.",
    },
  };
}
