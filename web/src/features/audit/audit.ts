import type { AuditSummary, Problem } from "@clearseal/verifier";
import type { Found, Reply } from "./messages";

/** State of an audit. Only receipts that were checked in this attempt have a verdict. */
export type Audit =
  | { readonly at: "empty"; readonly attempt: number }
  | { readonly at: "reading"; readonly attempt: number }
  | {
      readonly at: "judging" | "judged";
      readonly attempt: number;
      readonly found: Found;
      /** In order from the first, without gaps. */
      readonly summaries: readonly AuditSummary[];
      readonly tookMs: number | null;
    }
  | { readonly at: "failed"; readonly attempt: number; readonly problem: Problem };

export type AuditEvent =
  | { readonly type: "cleared"; readonly attempt: number }
  | { readonly type: "asked"; readonly attempt: number }
  | { readonly type: "replied"; readonly reply: Extract<Reply, { attempt: number }> }
  | { readonly type: "lost"; readonly problem: Problem };

export const NOTHING: Audit = { at: "empty", attempt: 0 };

/** Pure. A reply to an earlier attempt changes nothing. */
export function transition(audit: Audit, event: AuditEvent): Audit {
  switch (event.type) {
    case "cleared":
      return { at: "empty", attempt: event.attempt };
    case "asked":
      return { at: "reading", attempt: event.attempt };
    case "lost":
      // Verdicts are lost with the verifier that gave them.
      return audit.at === "empty" ? audit : { at: "failed", attempt: audit.attempt, problem: event.problem };
    case "replied":
      return event.reply.attempt === audit.attempt ? replied(audit, event.reply) : audit;
  }
}

function replied(audit: Audit, reply: Extract<Reply, { attempt: number }>): Audit {
  const { attempt } = audit;
  switch (reply.kind) {
    case "found":
      if (audit.at !== "reading") return audit;
      return { at: "judging", attempt, found: reply.found, summaries: [], tookMs: null };
    case "summaries":
      if (audit.at !== "judging" || reply.summaries.length === 0) return audit;
      return { ...audit, summaries: [...audit.summaries, ...reply.summaries] };
    case "judged":
      if (audit.at !== "judging") return audit;
      // A worker that omits a receipt is not trusted with the others.
      if (audit.summaries.length !== audit.found.total) {
        return { at: "failed", attempt, problem: INCOMPLETE };
      }
      return { ...audit, at: "judged", tookMs: reply.tookMs };
    case "unreadable":
      return { at: "failed", attempt, problem: reply.problem };
  }
}

const INCOMPLETE: Problem = {
  code: "AUDIT_INCOMPLETE",
  title: "Not every receipt was checked",
  detail: "The verifier ended before it had checked all of them, so no verdict is shown.",
  remedy: "Check again. If this repeats, this build of the page is broken.",
};

/** Appearance of a receipt. Only `verified` is green, and only the verifier decides it. */
export type AuditFace = "verified" | "simulated" | "signed" | "refused" | "unknown";

/** The verifier's own verdict. A missing or unknown value is not a verdict. */
export function faceOf(judged: { readonly verdict: string } | null | undefined): AuditFace {
  switch (judged?.verdict) {
    case "verified":
    case "simulated":
    case "signed":
    case "refused":
      return judged.verdict;
    default:
      return "unknown";
  }
}

export function tally(summaries: readonly AuditSummary[]): Record<AuditFace, number> {
  const counts = { verified: 0, simulated: 0, signed: 0, refused: 0, unknown: 0 };
  for (const summary of summaries) counts[faceOf(summary)] += 1;
  return counts;
}
