import type { VectorJudgement } from "@clearseal/verifier";
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

const judgement: VectorJudgement = {
  receipt,
  attestation: null,
  index: null,
  tokens: null,
  truncated: null,
} as unknown as VectorJudgement;

const status = (html: string) => /<div role="status">(.*?)<\/div>/.exec(html)?.[1];

describe("the judgement of a vector", () => {
  it("is said in a status region that was there before", () => {
    expect(status(renderToStaticMarkup(<Result asked={{ at: "no" }} />))).toBe("");
    const on = { chosen: null, losses: 0 };
    const html = renderToStaticMarkup(<Result asked={{ at: "answered", on, answer: judgement }} />);
    expect(status(html)).toContain("Refused.");
    expect(status(html)).toContain("The row differs. Suspect it.");
    expect(html).toContain('aria-label="Judgement of the vector"');
  });
});
