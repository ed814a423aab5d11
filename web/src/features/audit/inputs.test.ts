import { describe, expect, it } from "vitest";
import { indexOfText, inputsOf } from "./inputs";

describe("inputs of a request", () => {
  it.each([
    ['{"input":"one"}', ["one"]],
    ['{"model":"m","input":["one","two"]}', ["one", "two"]],
    ['{"input":[[1,2],[3]]}', []],
    ['{"input":7}', []],
    ["[]", []],
    ["not json", []],
  ])("%s", (body, inputs) => expect(inputsOf(body)).toEqual(inputs));

  it("are compared character by character", () => {
    expect(indexOfText("two", ["one", "two"])).toBe(1);
    expect(indexOfText("two\n", ["one", "two"])).toBe(1);
    expect(indexOfText("two ", ["one", "two"])).toBe(-1);
    expect(indexOfText("Two", ["one", "two"])).toBe(-1);
  });
});
