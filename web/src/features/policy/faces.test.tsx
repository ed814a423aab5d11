import type { AttestationReport, AuditAppraisal, PolicyView, Verdict } from "@clearseal/verifier";
import { renderToStaticMarkup } from "react-dom/server";
import { afterEach, describe, expect, it } from "vitest";
import { Registers } from "../attestation/Registers";
import { SealFace } from "../attestation/SealPanel";
import type { Seal } from "../attestation/seal";
import { AppraisedSeal } from "../audit/Appraisal";
import { originOf, simulatedBecause } from "./origin";
import { policies } from "./policy-store";

const CHOSEN = "under a policy that you chose";
const BUILT_IN = "under the policy built into this page";
const EVIDENCE = "under a policy that came with the evidence";
const REPLACES = "replaces the policy built into this page";

function report(verdict: Verdict, policy: Partial<PolicyView> | null): AttestationReport {
  return {
    verdict,
    code: null,
    message: null,
    remedy: null,
    judgedAtMs: 1,
    checks: [],
    statements: [],
    policy: policy && { name: "releases", root: "aws", origin: "built-in", release: "1.0", ...policy },
    document: {
      sha256: "00",
      size: 1,
      moduleId: "i-1",
      timestampMs: 1,
      debug: false,
      pcrs: [{ index: 0, role: "Enclave image file", value: "11", expected: "11", zero: false }],
      nonce: null,
      userData: null,
      publicKey: null,
    },
    chain: [],
    manifest: null,
  };
}

function embedSeal(verdict: Verdict, policy: Partial<PolicyView> | null): string {
  const trust = { report: report(verdict, policy), evidence: null, validUntilMs: Date.now() + 60_000 };
  const seal: Seal = { at: "closed", attempt: 1, trust };
  return renderToStaticMarkup(<SealFace seal={seal} rows={[]} />);
}

function sealLine(verdict: Verdict, policy: Partial<PolicyView> | null): string {
  const trust = { report: report(verdict, policy), evidence: null, validUntilMs: Date.now() + 60_000 };
  const seal: Seal = { at: "closed", attempt: 1, trust };
  return renderToStaticMarkup(<SealFace seal={seal} rows={[]} line />);
}

function auditSeal(verdict: Verdict, policy: Partial<PolicyView> | null): string {
  const appraisal = {
    summary: { verdict, basis: "bundle", line: 1 },
    encoding: "JSON",
    attestation: report(verdict, policy),
    receipt: { verdict, checks: [], judgedAtMs: 1 },
  } as unknown as AuditAppraisal;
  return renderToStaticMarkup(<AppraisedSeal appraisal={appraisal} many={false} />);
}

afterEach(() => policies.builtIn(null));

describe.each([
  ["the seal", embedSeal],
  ["the seal in one line", sealLine],
  ["an audit", auditSeal],
])("%s", (_, draw) => {
  it("is green under the built-in policy and under a chosen one, with different marks", () => {
    policies.builtIn("production");
    const builtIn = draw("verified", { origin: "built-in" });
    expect(builtIn).toContain("Verified");
    expect(builtIn).toContain(BUILT_IN);
    expect(builtIn).toContain('data-origin="built-in"');
    expect(builtIn).not.toContain("ring-notch");
    expect(builtIn).not.toContain(REPLACES);
    const chosen = draw("verified", { origin: "chosen" });
    expect(chosen).toContain("Verified");
    expect(chosen).toContain(CHOSEN);
    expect(chosen).toContain('data-origin="chosen"');
    expect(chosen).toContain("ring-notch");
    expect(chosen).toContain(REPLACES);
  });

  it("does not mention a built-in policy if there is none", () => {
    policies.builtIn(null);
    expect(draw("verified", { origin: "chosen" })).not.toContain(REPLACES);
  });

  it("names a policy that came with the evidence, and marks nothing as chosen", () => {
    const markup = draw("simulated", { origin: "evidence", root: "development" });
    expect(markup).toContain("SIMULATED");
    expect(markup).toContain(EVIDENCE);
    expect(markup).not.toContain("ring-notch");
  });

  it("reports an unrecognised origin as unknown", () => {
    const markup = draw("verified", { origin: "server" });
    expect(markup).toContain("under a policy of unknown origin");
    for (const words of [CHOSEN, BUILT_IN, EVIDENCE]) expect(markup).not.toContain(words);
  });

  it("names no policy if none was applied", () => {
    expect(draw("refused", null)).not.toContain("Checked ");
  });
});

describe("originOf", () => {
  it("recognises exactly three values", () => {
    for (const origin of ["built-in", "chosen", "evidence"] as const) {
      expect(originOf(report("verified", { origin }))).toBe(origin);
    }
    for (const origin of ["", "build", "file", "Chosen"]) {
      expect(originOf(report("verified", { origin }))).toBeNull();
    }
    expect(originOf(report("refused", null))).toBeNull();
    expect(originOf(null)).toBeNull();
  });
});

describe("simulatedBecause", () => {
  it("names the development root and the policy from the evidence", () => {
    const why = (policy: Partial<PolicyView>) => simulatedBecause(report("simulated", policy));
    expect(why({ root: "development", origin: "chosen" })).toBe("under a development root");
    expect(why({ root: "aws", origin: "evidence" })).toBe(EVIDENCE);
    expect(why({ root: "development", origin: "evidence" })).toContain("development root");
    expect(why({ root: "development", origin: "evidence" })).toContain(EVIDENCE);
    expect(why({ root: "aws", origin: "chosen" })).not.toMatch(/development|evidence/);
  });
});

describe("statements about hardware", () => {
  const HARDWARE = /hardware|Measures|measurement/i;

  it("appear only with a verified report", () => {
    const draw = (verdict: Verdict) => renderToStaticMarkup(<Registers report={report(verdict, {})} />);
    expect(draw("verified")).toMatch(/The hardware took these hashes/);
    for (const verdict of ["simulated", "refused", "authentic"] as const) {
      expect(draw(verdict)).not.toMatch(HARDWARE);
    }
    expect(embedSeal("verified", {})).toMatch(/come from the hardware/);
    expect(embedSeal("simulated", { root: "development" })).not.toMatch(/the hardware|measurement/i);
  });
});
