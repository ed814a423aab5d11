import type { AttestationReport, Evidence, Problem, Row, RowState } from "@clearseal/verifier";
import type { Connected, Trust } from "../../verifier/messages";

/** State of the seal. `attempt` numbers the checks of this tab, so that late answers can be recognised. */
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
  | { readonly type: "reattested"; readonly attempt: number; readonly trust: Trust }
  | { readonly type: "broken"; readonly attempt: number; readonly report: AttestationReport }
  | { readonly type: "expired"; readonly attempt: number }
  | { readonly type: "lost"; readonly attempt: number; readonly problem: Problem };

/** Appearance of the seal. Only `verified` is green, and only the verifier decides it. */
export type Face = "unknown" | "checking" | "verified" | "simulated" | "refused" | "unreachable" | "expired";

export const INITIAL: Seal = { at: "unknown", attempt: 0, problem: null };

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
    case "reattested":
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

/** The trust on which requests may be sent; null in every other state. */
export function open(seal: Seal): Trust | null {
  return seal.at === "closed" ? seal.trust : null;
}

/** The verifier's own verdict, for the current check; the page never derives one. */
export function face(seal: Seal): Face {
  if (seal.at !== "closed") return seal.at;
  return allowsSending(seal.trust.report.verdict) ?? "unknown";
}

/** Returns the verdict if it is one of the two that allow sending. */
function allowsSending(verdict: string | undefined): "verified" | "simulated" | null {
  return verdict === "verified" || verdict === "simulated" ? verdict : null;
}

/** The verifier's states of a check, and two that only the page knows. */
export type ShownState = RowState | "running" | "expired";

export interface ShownRow extends Omit<Row, "state"> {
  readonly state: ShownState;
}

/**
 * The rows to show. During a check, every row is running; after the evidence expires, passed rows are expired; without a
 * verifier, no row has run.
 */
export function shownRows(seal: Seal, questions: readonly Row[]): readonly ShownRow[] {
  if (seal.at === "checking") return questions.map((row) => ({ ...row, state: "running" }));
  const rows = reportOf(seal)?.checks ?? questions;
  if (seal.at !== "expired") return rows;
  return rows.map((row) => (row.state === "passed" ? { ...row, state: "expired" } : row));
}

/** The report to show, if there is one. */
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

/** Closes the seal only for a verdict that this page knows. */
function closed(attempt: number, trust: Trust): Seal {
  // The type of a worker's message is declared, not checked.
  const report: AttestationReport | undefined = trust.report;
  if (allowsSending(report?.verdict)) return { at: "closed", attempt, trust };
  return {
    at: "unknown",
    attempt,
    problem: {
      code: "VERDICT_UNKNOWN",
      title: "The verifier gave an unknown verdict",
      detail: "It opened a connection without reporting the enclave as verified or simulated.",
      remedy: "Send nothing. Reload the page. If this repeats, this build of the page is broken.",
    },
  };
}
