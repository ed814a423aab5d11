import type { AttestationReport } from "@clearseal/verifier";
import { moment } from "../../ui/format";
import type { IconName } from "../../ui/Icon";
import { simulatedBecause } from "../policy/origin";
import { type Face, face, problemOf, reportOf, type Seal, type ShownState } from "./seal";

/** Heading of each verdict. */
export const VERDICT_LABELS: Record<Face, string> = {
  unknown: "Not verified",
  checking: "Checking",
  verified: "Verified",
  simulated: "SIMULATED",
  refused: "Refused",
  unreachable: "Unreachable",
  expired: "Expired",
};

export interface Explanation {
  /** Describes the event. */
  readonly text: string;
  /** The next step, if there is one. */
  readonly next: string | null;
  /** Stable error code. */
  readonly code: string | null;
}

/** Replaces the verifier's remedy, which addresses programs: the page has a control for the policy. */
const CHOOSE_POLICY = "Choose a trust policy from someone you trust, never from the service.";

/** Explains the verdict in one or two sentences. Refusals use the verifier's own message. */
export function explain(seal: Seal): Explanation {
  const problem = problemOf(seal);
  if (problem)
    return { text: `${problem.title}. ${problem.detail}`, next: problem.remedy, code: problem.code };
  const explanation = (text: string, next: string | null = null): Explanation => ({ text, next, code: null });
  switch (face(seal)) {
    case "verified":
      return explanation(
        "This tab verified the enclave. It seals everything you send to a key that only this enclave holds.",
      );
    case "simulated":
      return explanation(
        `The checks passed, but ${simulatedBecause(reportOf(seal))}. That proves nothing about who reads your text: try the page, but send nothing private.`,
      );
    case "checking":
      return explanation("This tab requests evidence from the enclave and checks it here.");
    case "expired":
      return explanation(
        `The verification expired${seal.at === "expired" ? ` on ${moment(seal.trust.validUntilMs)}` : ""}. Nothing is sent until a new one succeeds.`,
        "The tab re-verifies the enclave automatically; if it does not, verify again.",
      );
    case "refused": {
      const report = reportOf(seal);
      const code = report?.code ?? null;
      const next = report?.remedy ?? "Send nothing. Verify again; if the refusal repeats, ask the operator.";
      return {
        text: report?.message ?? "The evidence did not pass. Nothing was sent.",
        next: code === "NO_POLICY" ? CHOOSE_POLICY : next,
        code,
      };
    }
    default:
      return explanation("Nothing has been verified yet, so nothing can be sent.", "Verify the enclave.");
  }
}

/** The short form of [`explain`], for states that need no action. It must fit the lines that the closed seal reserves. */
export function brief(seal: Seal): string {
  switch (face(seal)) {
    case "verified":
      return "Your text is sealed to a key that only this enclave holds.";
    case "simulated":
      return "Proves nothing about who reads your text. Send nothing private.";
    case "checking":
      return "This tab requests evidence from the enclave and checks it.";
    case "expired":
      return "The verification expired. Nothing is sent until a new one succeeds.";
    default:
      return "Nothing has been verified yet, so nothing can be sent.";
  }
}

/** Labels for measurements, which depend on what the report proves about their origin. */
export interface MeasurementLabels {
  /** Introduces the registers. */
  readonly lead: string;
  /** Heading of the column that names what a register measures. */
  readonly about: string;
  /** Explains the term "release". */
  readonly release: string;
}

/** Only a verified report proves that hardware took the measurements; no other label may claim it. */
export function measurementLabels(report: AttestationReport): MeasurementLabels {
  switch (report.verdict) {
    case "verified":
      return {
        lead: "The hardware took these hashes of the image that it booted. The policy pins the registers that decide which code runs.",
        about: "Measures",
        release:
          "A build whose measurements the policy pins. The measurements come from the hardware, not from the server.",
      };
    case "simulated":
      return {
        lead: "Values that the simulated document names. The server computed or invented them; the policy pins the registers that would decide which code runs.",
        about: "Represents",
        release:
          "A build whose values the policy pins. In a simulated document, the server can name any values.",
      };
    default:
      return {
        lead: "Values that the document names. Nothing proves where they come from.",
        about: "Represents",
        release:
          "A build whose values the policy pins. Nothing proves where the document's values come from.",
      };
  }
}

/** Icon, label and tone of a check's state. An unknown state is shown as not run. */
export function rowLabel(state: ShownState): {
  readonly icon: IconName;
  readonly label: string;
  readonly tone: string;
} {
  switch (state) {
    case "passed":
      return { icon: "check", label: "passed", tone: "passed" };
    case "failed":
      return { icon: "cross", label: "failed", tone: "failed" };
    case "warning":
      return { icon: "warning", label: "warning", tone: "warning" };
    case "skipped":
      return { icon: "dash", label: "skipped", tone: "none" };
    case "running":
      return { icon: "arc", label: "running", tone: "running" };
    case "expired":
      return { icon: "clock", label: "expired", tone: "expired" };
    default:
      return { icon: "circle", label: "not run", tone: "none" };
  }
}
