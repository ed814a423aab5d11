import { describe, expect, it } from "vitest";
import { explain, rowLabel, VERDICT_LABELS } from "./labels";
import { INITIAL, type ShownState } from "./seal";

describe("labels", () => {
  it("labels only a passed row as passed", () => {
    const states: ShownState[] = ["not-run", "running", "failed", "warning", "skipped", "expired"];
    for (const state of [...states, "unknown-state" as ShownState])
      expect(rowLabel(state).tone).not.toBe("passed");
    expect(rowLabel("passed").tone).toBe("passed");
  });

  it("has a different label for each of the seven states", () => {
    const states: ShownState[] = ["not-run", "running", "passed", "failed", "warning", "skipped", "expired"];
    expect(new Set(states.map((state) => rowLabel(state).label)).size).toBe(7);
  });

  it("writes SIMULATED in capitals", () => {
    expect(VERDICT_LABELS.simulated).toBe("SIMULATED");
  });

  it("gives event, next step and code", () => {
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
    expect(explain(INITIAL).next).toBe("Verify the enclave.");
  });
});
