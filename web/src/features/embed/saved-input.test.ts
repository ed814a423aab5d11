import { beforeEach, expect, it, vi } from "vitest";
import { type Input, NO_INPUT } from "./input";
import { loadInput, saveInput } from "./saved-input";

const file = (value: string) => ({
  id: 1,
  name: "a.txt",
  table: { columns: [""], records: [[value]] },
  column: 0,
});
const input = (text: string, value: string): Input => ({ text, files: [file(value)] });

beforeEach(() => {
  const values = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => {
      if (value.length > 1_100_000) throw new Error("the quota is exceeded");
      values.set(key, value);
    },
    removeItem: (key: string) => values.delete(key),
  });
});

it("keeps text and files, and forgets an empty input", () => {
  expect(loadInput()).toEqual(NO_INPUT);
  saveInput(input("typed", "dropped"));
  expect(loadInput()).toEqual(input("typed", "dropped"));
  saveInput(NO_INPUT);
  expect(loadInput()).toEqual(NO_INPUT);
  expect(sessionStorage.getItem("clearseal.input")).toBeNull();
});

it("keeps the text alone when the files are too large for the tab's storage", () => {
  for (const size of [1_000_001, 999_999]) {
    saveInput(input("x".repeat(200_000), "y".repeat(size)));
    expect(loadInput()).toEqual({ text: "x".repeat(200_000), files: [] });
  }
});

it.each(["{", "7", '{"text":7,"files":[]}', '{"text":"a"}'])(
  "ignores a record that it cannot read: %s",
  (saved) => {
    sessionStorage.setItem("clearseal.input", saved);
    expect(loadInput()).toEqual(NO_INPUT);
  },
);

it("ignores files of another shape", () => {
  sessionStorage.setItem(
    "clearseal.input",
    '{"text":"a","files":[null,{"id":1},{"id":1,"name":"n","column":0}]}',
  );
  expect(loadInput()).toEqual({ text: "a", files: [] });
});
