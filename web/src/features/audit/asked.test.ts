import { describe, expect, it } from "vitest";
import { type Asked, standing } from "./asked";

const on = { chosen: null, losses: 0 };
const answered: Asked<string> = { at: "answered", on, answer: "verified" };

describe("an answer of the auditor", () => {
  it("stands while nothing under it changes", () => {
    expect(standing(answered, { ...on })).toBe(answered);
    expect(standing({ at: "gone" }, { ...on, losses: 1 })).toEqual({ at: "gone" });
  });

  it("does not outlive its policy, nor its verifier", () => {
    const chosen = { name: "mine.json", text: "{}" };
    for (const asked of [answered, { at: "asking", on } as const]) {
      expect(standing(asked, { ...on, chosen })).toEqual({ at: "no" });
      expect(standing(asked, { ...on, losses: 1 })).toEqual({ at: "gone" });
    }
  });
});
