import { describe, expect, it } from "vitest";
import { itemsOf, MAX_ITEMS, parseFile } from "./input";

function read(name: string, content: string) {
  const parsed = parseFile(name, content);
  if (parsed.status === "refused") throw new Error(parsed.why);
  const items = itemsOf({ text: "", files: [{ id: 1, name, table: parsed.table, column: parsed.column }] });
  return { ...parsed, items };
}

describe("itemsOf", () => {
  it("takes one item per line, in order, without blank lines", () => {
    expect(itemsOf({ text: "one\r\n\n  \ntwo\rthree\n", files: [] })).toEqual(["one", "two", "three"]);
  });

  it("keeps an item exactly as typed", () => {
    expect(itemsOf({ text: "  indented, with trail  ", files: [] })).toEqual(["  indented, with trail  "]);
  });
});

describe("parseFile", () => {
  it("reads text, with or without a byte-order mark", () => {
    expect(read("a.TXT", "\uFEFFone\ntwo").items).toEqual(["one", "two"]);
  });

  it("reads quoted CSV: separators, line breaks and doubled quotes inside a field", () => {
    const { items, table } = read("a.csv", 'id,text\r\n1,"a, b"\r\n2,"line\r\nbreak"\r\n3,"say ""hi"""\r\n');
    expect(table.columns).toEqual(["id", "text"]);
    expect(items).toEqual(["a, b", "line\r\nbreak", 'say "hi"']);
  });

  it("takes the column with the longest values if no column is named like text", () => {
    expect(read("a.csv", "sku,remark\n1,a longer remark\n2,another remark\n").column).toBe(1);
  });

  it("reads a CSV without separators as a plain list, first line included", () => {
    expect(read("a.csv", "first line\nsecond line\n").items).toEqual(["first line", "second line"]);
    expect(read("a.csv", "text\nonly this\n").items).toEqual(["only this"]);
  });

  it("names the line of an unclosed quote", () => {
    expect(parseFile("a.csv", 'id,text\n1,"open\n2,x\n')).toMatchObject({
      status: "refused",
      why: "A quote that opens on line 2 never closes.",
    });
  });

  it("reads JSONL of strings and of objects, also when fields differ between lines", () => {
    expect(read("a.jsonl", '"one"\n"two"\n').items).toEqual(["one", "two"]);
    const { items, table } = read("a.ndjson", '{"id":"1","text":"one"}\n{"text":"two","note":"n"}\n');
    expect(table.columns).toEqual(["id", "text", "note"]);
    expect(items).toEqual(["one", "two"]);
  });

  it("names the line that is not JSON, or holds no text", () => {
    expect(parseFile("a.jsonl", '"one"\n{oops}\n')).toMatchObject({ why: "Line 2 is not JSON." });
    expect(parseFile("a.jsonl", "[1]\n")).toMatchObject({ why: "Line 1 contains no text." });
  });

  it("keeps the rest of a JSONL file, for a user who skips the bad lines", () => {
    const parsed = parseFile("a.jsonl", '{"text":"one"}\n{oops}\n7\n\n{"text":"two"}\n');
    expect(parsed).toMatchObject({
      status: "refused",
      why: "Line 2 is not JSON. 1 more cannot be read either.",
      rest: { skipped: [2, 3], table: { columns: ["text"], records: [["one"], ["two"]] } },
    });
    expect(parseFile("a.jsonl", "{oops}\n")).not.toHaveProperty("rest");
  });

  it("rejects files that it cannot read, and files with too many records", () => {
    expect(parseFile("a.pdf", "x").status).toBe("refused");
    expect(parseFile("a.txt", "a\0b").status).toBe("refused");
    expect(parseFile("a.txt", "").status).toBe("refused");
    expect(parseFile("a.txt", "x\n".repeat(MAX_ITEMS + 1)).status).toBe("refused");
  });
});
