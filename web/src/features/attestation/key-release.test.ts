import { expect, test } from "vitest";
import { keyReleaseWords } from "./KeyRelease";

test("a simulated KMS is called simulated, and what is not understood is not told", () => {
  expect(keyReleaseWords({ key_release: "simulated KMS" })).toContain(
    "simulated KMS, which protects nothing",
  );
  expect(keyReleaseWords({ key_release: "AWS KMS" })).toContain("by AWS KMS");
  expect(keyReleaseWords({ key_release: "none" })).toContain("read from a folder");
  for (const other of [null, "ready", {}, { key_release: "<b>" }, []]) {
    expect(keyReleaseWords(other)).toBe("the service does not say who released it");
  }
});
