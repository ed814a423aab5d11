import { describe, expect, it } from "vitest";
import { describeQuery } from "./Search";

describe("the note of a search", () => {
  it("states that vectors of two models cannot be compared", () => {
    expect(describeQuery("small", "large")).toContain(
      "The model of these vectors is small; the service now runs large",
    );
    expect(describeQuery("small", "small")).toContain("The query is sealed");
    expect(describeQuery("small", null)).toContain("Waits for the seal");
  });
});
