import { describe, expect, it } from "vitest";
import { type ShownState, UNASKED } from "./seal";
import { explain, rowWords, VERDICT_WORDS } from "./words";

describe("words", () => {
  it("calls a row passed only when it is", () => {
    const states: ShownState[] = ["not-run", "running", "failed", "warning", "skipped", "expired"];
    for (const state of [...states, "brilliant" as ShownState])
      expect(rowWords(state).tone).not.toBe("passed");
    expect(rowWords("passed").tone).toBe("passed");
  });

  it("has a word of its own for each of the seven states", () => {
    const states: ShownState[] = ["not-run", "running", "passed", "failed", "warning", "skipped", "expired"];
    expect(new Set(states.map((state) => rowWords(state).word)).size).toBe(7);
  });

  it("writes SIMULATED so that it is not overlooked", () => {
    expect(VERDICT_WORDS.simulated).toBe("SIMULATED");
  });

  it("says what happened, what to do, and the code", () => {
    const problem = {
      code: "DOWN",
      title: "The service did not answer",
      detail: "It is off.",
      remedy: "Start it.",
    };
    expect(explain({ at: "unreachable", attempt: 1, problem })).toEqual({
      text: "The service did not answer. It is off.",
      next: "Start it.",
      code: "DOWN",
    });
    expect(explain(UNASKED).next).toBe("Verify the enclave.");
  });
});
