import { describe, expect, it } from "vitest";
import { note } from "./Search";

describe("the note of a search", () => {
  it("says that vectors of two models cannot be compared", () => {
    expect(note("small", "large")).toContain("These vectors are of small, and the service runs large now");
    expect(note("small", "small")).toContain("The question is sealed");
    expect(note("small", null)).toContain("Waits for the seal");
  });
});
