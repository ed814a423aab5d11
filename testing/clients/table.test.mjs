import assert from "node:assert/strict";
import { test } from "node:test";
import { CLIENTS, LANGUAGES } from "./catalogue.mjs";
import { compare, describe, replaceRows } from "./table.mjs";

const expected = [
  [1, 0],
  [0.6, 0.8],
];

test("vectors are compared as float32", () => {
  const same = compare([[1, 0], [0.6, 0.8].map(Math.fround)], expected);
  assert.equal(same.works, true);
  assert.equal(same.difference, 0);
  const other = compare(
    [
      [1, 0],
      [0.8, 0.6],
    ],
    expected,
  );
  assert.equal(other.works, false);
  assert.equal(other.why, "cosine 0.960000");
  for (const wrong of [null, [], [[1, 0]], [[1], [0.6, 0.8]], [[1, 0], null]])
    assert.equal(compare(wrong, expected).works, false, JSON.stringify(wrong));
  assert.equal(
    compare(
      [
        [1, Number.NaN],
        [0.6, 0.8],
      ],
      expected,
    ).works,
    false,
  );
});

test("a result is one of three", () => {
  const client = { setting: "check=False" };
  assert.equal(describe(client, { works: true }), "works as printed");
  assert.equal(describe(client, { works: true, without: "refused" }), "one line: `check=False`");
  assert.equal(describe({}, { works: false, stage: "run", why: "refused" }), "does not (run): refused");
  assert.equal(
    describe({ why: "known" }, { works: false, stage: "run", why: "refused" }),
    "does not (run): known",
  );
  assert.equal(
    describe({ why: "known" }, { works: false, stage: "install", why: "404" }),
    "does not (install): 404",
  );
});

test("rows replace those of the same client, and keep the others", () => {
  const client = { name: "b", language: "Go", version: "1", result: { works: true, difference: 0 } };
  const empty = "before\n<!-- clients -->\n<!-- /clients -->\nafter\n";
  const one = replaceRows(empty, [client], new Date("2026-01-02"));
  assert.match(
    one,
    /\| b \(Go\) \| 1 \| 2026-01-02 \| works as printed \| 0 \|\n<!-- \/clients -->\nafter\n$/,
  );
  const two = replaceRows(one, [{ ...client, name: "a" }], new Date("2026-01-02"));
  assert.ok(two.indexOf("| a (Go)") < two.indexOf("| b (Go)"));
  const three = replaceRows(two, [{ ...client, version: "2" }], new Date("2026-01-03"));
  assert.equal(three.match(/\(Go\)/g).length, 2);
  assert.match(three, /\| b \(Go\) \| 2 \| 2026-01-03 \|/);
  assert.throws(() => replaceRows("", [client], new Date()));
});

test("every client has a language, a pinned version and a separate name", () => {
  const names = CLIENTS.map(({ name, language }) => `${name} (${language})`);
  assert.equal(new Set(names).size, names.length);
  for (const { language, packages, version } of CLIENTS) {
    assert.ok(LANGUAGES[language]);
    assert.match(version, /^\d+\.\d+/);
    assert.ok(Object.values(packages).every((pinned) => /^\d+\.\d+/.test(pinned)));
  }
});
