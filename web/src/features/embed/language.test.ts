import { expect, it } from "vitest";
import { describeLanguage } from "./language";

it("warns about models of English, and about no other", () => {
  expect(describeLanguage("all-MiniLM-L6-v2")).toMatch(/^all-MiniLM-L6-v2 is a model of English/);
  expect(describeLanguage("BAAI/bge-small-en-v1.5")).toContain("English");
  expect(describeLanguage("paraphrase-multilingual-MiniLM-L12-v2")).toBeNull();
  expect(describeLanguage("bge-m3")).toBeNull();
});
