import { expect, it } from "vitest";
import { describeCosine } from "./closeness";

it.each([
  [1, "the same text, or nearly"],
  [0.7, "nearly the same meaning"],
  [0.5, "related"],
  [0.3, "loosely related"],
  [0.1, "little in common"],
  [-0.2, "little in common"],
])("puts a cosine of %s in words", (cosine, words) => {
  expect(describeCosine(cosine)).toBe(words);
});
