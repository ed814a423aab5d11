import type { RowState } from "@clearseal/verifier";
import { describe, expect, it } from "vitest";
import { UNASKED } from "./seal";
import { explain, rowWords, VERDICT_WORDS } from "./words";

describe("words", () => {
  it("calls a row passed only when it is", () => {
    const states: RowState[] = ["not-run", "failed", "warning", "skipped"];
    for (const state of [...states, "brilliant" as RowState]) expect(rowWords(state).tone).not.toBe("passed");
    expect(rowWords("passed").tone).toBe("passed");
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
