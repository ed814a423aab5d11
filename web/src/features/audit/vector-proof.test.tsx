import type { VectorAppraisal } from "@clearseal/verifier";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { Result } from "./VectorProof";

const receipt = {
  verdict: "refused",
  code: "ROW_DIFFERS",
  message: "The row differs.",
  remedy: "Suspect it.",
  judgedAtMs: 0,
  checks: [],
  claims: null,
} as const;

const appraisal: VectorAppraisal = {
  receipt,
  attestation: null,
  index: null,
  tokens: null,
  truncated: null,
} as unknown as VectorAppraisal;

const status = (html: string) => /<div role="status">(.*?)<\/div>/.exec(html)?.[1];

describe("the result of a vector check", () => {
  it("appears in a status region that existed before", () => {
    expect(status(renderToStaticMarkup(<Result query={{ at: "idle" }} />))).toBe("");
    const on = { chosen: null, losses: 0 };
    const html = renderToStaticMarkup(<Result query={{ at: "answered", on, answer: appraisal }} />);
    expect(status(html)).toContain("Refused.");
    expect(status(html)).toContain("The row differs. Suspect it.");
    expect(html).toContain('aria-label="Result of the vector check"');
  });

  it("names the prompt that the model read before the text", () => {
    const passed = { ...receipt, verdict: "verified", code: null, message: null, remedy: null };
    const answer = {
      ...appraisal,
      receipt: passed,
      index: 0,
      tokens: 5,
      prompt: "query: ",
    } as unknown as VectorAppraisal;
    const html = renderToStaticMarkup(
      <Result query={{ at: "answered", on: { chosen: null, losses: 0 }, answer }} />,
    );
    expect(status(html)).toContain("after the prompt");
    expect(status(html)).toContain('<bdi class="mono">query: </bdi>');
  });
});
