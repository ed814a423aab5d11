import type { AttestationReport, Evidence, Problem, Row, RowState } from "@clearseal/verifier";
import type { Connected, Trust } from "../../verifier/messages";

/** Where the seal stands. `attempt` numbers the checks of this tab, so that a late answer can be told from ours. */
export type Seal =
  | { readonly at: "unknown"; readonly attempt: number; readonly problem: Problem | null }
  | { readonly at: "checking"; readonly attempt: number }
  | { readonly at: "closed"; readonly attempt: number; readonly trust: Trust }
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

/** How a seal is drawn and named. Only `verified` is ever green, and only the verifier says it. */
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
      return seal.at === "closed" || seal.at === "expired" ? closed(attempt, event.trust) : seal;
    case "broken":
      return seal.at === "closed" || seal.at === "expired"
        ? { at: "refused", attempt, report: event.report, evidence: null }
        : seal;
    case "expired":
      return seal.at === "closed" ? { at: "expired", attempt, trust: seal.trust } : seal;
    case "lost":
      return { at: "unknown", attempt, problem: event.problem };
  }
}

/** The session's basis while something may be sent; null at every other time. */
export function open(seal: Seal): Trust | null {
  return seal.at === "closed" ? seal.trust : null;
}

/** The verifier's own verdict while it belongs to this check; never one that the page came to by itself. */
export function face(seal: Seal): Face {
  if (seal.at !== "closed") return seal.at;
  return sending(seal.trust.report.verdict) ?? "unknown";
}

/** The two verdicts under which anything may be sent. */
function sending(verdict: string | undefined): "verified" | "simulated" | null {
  return verdict === "verified" || verdict === "simulated" ? verdict : null;
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
    case "closed":
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
    case "closed":
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
    case "simulated":
      return closed(attempt, connected.trust);
    case "refused":
      return { at: "refused", attempt, report: connected.report, evidence: connected.evidence };
    case "unreachable":
      return { at: "unreachable", attempt, problem: connected.problem };
  }
}

/** A report without a verdict that this page knows is no reason to send anything. */
function closed(attempt: number, trust: Trust): Seal {
  // What comes out of a worker has the type that it was given, not one that was checked.
  const report: AttestationReport | undefined = trust.report;
  if (sending(report?.verdict)) return { at: "closed", attempt, trust };
  return {
    at: "unknown",
    attempt,
    problem: {
      code: "VERDICT_UNKNOWN",
      title: "The verifier gave no verdict that this page knows",
      detail: "It opened a connection without saying that the enclave is verified or simulated.",
      remedy: "Send nothing. Load the page again; if it stays, this build of the page is broken.",
    },
  };
}
