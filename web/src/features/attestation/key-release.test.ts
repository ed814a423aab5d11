import { expect, test } from "vitest";
import { describeKeyRelease } from "./KeyRelease";

test("a simulated KMS is reported as simulated, and an unknown answer as not reported", () => {
  expect(describeKeyRelease({ key_release: "simulated KMS" })).toContain(
    "simulated KMS, which protects nothing",
  );
  expect(describeKeyRelease({ key_release: "AWS KMS" })).toContain("by AWS KMS");
  expect(describeKeyRelease({ key_release: "none" })).toContain("read from a folder");
  for (const other of [null, "ready", {}, { key_release: "<b>" }, []]) {
    expect(describeKeyRelease(other)).toBe("the service does not report who released it");
  }
});
