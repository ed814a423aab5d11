import { describe, expect, it } from "vitest";
import { currentQuery, type Query } from "./query";

const on = { chosen: null, losses: 0 };
const answered: Query<string> = { at: "answered", on, answer: "verified" };

describe("an answer of the auditor", () => {
  it("stays valid while its basis is unchanged", () => {
    expect(currentQuery(answered, { ...on })).toBe(answered);
    expect(currentQuery({ at: "stopped" }, { ...on, losses: 1 })).toEqual({ at: "stopped" });
  });

  it("ends with its policy and with its verifier", () => {
    const chosen = { name: "mine.json", text: "{}" };
    for (const asked of [answered, { at: "asking", on } as const]) {
      expect(currentQuery(asked, { ...on, chosen })).toEqual({ at: "idle" });
      expect(currentQuery(asked, { ...on, losses: 1 })).toEqual({ at: "stopped" });
    }
  });
});
