import type { AttestationReport } from "@clearseal/verifier";
import { moment } from "../../ui/format";
import type { IconName } from "../../ui/Icon";
import { simulatedBecause } from "../policy/origin";
import { type Face, face, problemOf, reportOf, type Seal, type ShownState } from "./seal";

/** The one word beside the ring. */
export const VERDICT_WORDS: Record<Face, string> = {
  unknown: "Not verified",
  checking: "Checking",
  verified: "Verified",
  simulated: "SIMULATED",
  refused: "Refused",
  unreachable: "Unreachable",
  expired: "Expired",
};

export interface Explanation {
  /** What happened. */
  readonly text: string;
  /** What to do next, where something has to be done. */
  readonly next: string | null;
  /** Stable code of what went wrong. */
  readonly code: string | null;
}

/** The verifier's remedy speaks to programs. A page has a control, and whoever gives the policy decides which code is trusted. */
const CHOOSE_POLICY = "Choose a trust policy that you got from whom you trust, never from the service.";

/** What the verdict means, in one or two sentences. Refusals speak in the verifier's own words. */
export function explain(seal: Seal): Explanation {
  const problem = problemOf(seal);
  if (problem)
    return { text: `${problem.title}. ${problem.detail}`, next: problem.remedy, code: problem.code };
  const plain = (text: string, next: string | null = null): Explanation => ({ text, next, code: null });
  switch (face(seal)) {
    case "verified":
      return plain(
        "The enclave proved itself to this tab. What you send is sealed to a key that only it holds.",
      );
    case "simulated":
      return plain(
        `The checks passed, but ${simulatedBecause(reportOf(seal))}. That proves nothing about who reads your text: use it to try the page, not for anything private.`,
      );
    case "checking":
      return plain("Asking the enclave to prove itself, and judging its answer here, in this tab.");
    case "expired":
      return plain(
        `The proof ran out${seal.at === "expired" ? ` on ${moment(seal.trust.validUntilMs)}` : ""}. Nothing is sent on an old proof.`,
        "The enclave is asked anew by itself; if not, verify again.",
      );
    case "refused": {
      const report = reportOf(seal);
      const code = report?.code ?? null;
      const next = report?.remedy ?? "Send nothing. Verify again, and if it stays, ask the operator.";
      return {
        text: report?.message ?? "The evidence did not pass. Nothing was sent.",
        next: code === "NO_POLICY" ? CHOOSE_POLICY : next,
        code,
      };
    }
    default:
      return plain("Nothing has been checked yet, so nothing can be sent.", "Verify the enclave.");
  }
}

/** The same in a few words, where nothing has to be decided. */
export function brief(seal: Seal): string {
  switch (face(seal)) {
    case "verified":
      return "What you send is sealed to a key that only this enclave holds.";
    case "simulated":
      return "Proves nothing about who reads your text. Send nothing private.";
    case "checking":
      return "The enclave is asked to prove itself, and is judged in this tab.";
    case "expired":
      return "The proof ran out. Nothing is sent until the enclave has proved itself again.";
    default:
      return "Nothing has been checked yet, so nothing can be sent.";
  }
}

/** What measurements are, by what a report shows of where they come from. */
export interface MeasurementWords {
  /** Of the registers as a whole. */
  readonly lead: string;
  /** Column of what each register is about. */
  readonly about: string;
  /** What a release is. */
  readonly release: string;
}

/** Only a verified report shows that hardware took them; nothing else may say so. */
export function measurementWords(report: AttestationReport): MeasurementWords {
  switch (report.verdict) {
    case "verified":
      return {
        lead: "Hashes that the hardware took of what it booted. The policy pins the ones that decide which code runs.",
        about: "Measures",
        release:
          "A build whose measurements the policy pins. The measurements come from the hardware, not from the server.",
      };
    case "simulated":
      return {
        lead: "Values that the simulated document names. The server made them up or computed them itself; the policy pins the ones that would decide which code runs.",
        about: "Stands for",
        release:
          "A build whose values the policy pins. A simulated document names whatever values the server likes.",
      };
    default:
      return {
        lead: "Values that the document names. Nothing shows where they come from.",
        about: "Stands for",
        release: "A build whose values the policy pins. Nothing shows where the document's own come from.",
      };
  }
}

/** How the state of one check is drawn and named. A state that this page does not know is shown as not run. */
export function rowWords(state: ShownState): {
  readonly icon: IconName;
  readonly word: string;
  readonly tone: string;
} {
  switch (state) {
    case "passed":
      return { icon: "check", word: "passed", tone: "passed" };
    case "failed":
      return { icon: "cross", word: "failed", tone: "failed" };
    case "warning":
      return { icon: "warning", word: "warning", tone: "warning" };
    case "skipped":
      return { icon: "dash", word: "skipped", tone: "none" };
    case "running":
      return { icon: "arc", word: "running", tone: "running" };
    case "expired":
      return { icon: "clock", word: "expired", tone: "expired" };
    default:
      return { icon: "circle", word: "not run", tone: "none" };
  }
}
