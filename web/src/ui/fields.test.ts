import { expect, it } from "vitest";
import html from "../../index.html?raw";

const sources = import.meta.glob<string>("../**/*.tsx", { query: "?raw", import: "default", eager: true });
const FIELD = /<(?:textarea|input)\b[\s\S]*?\/>/g;
const WITHOUT_TEXT = /type="(?:file|checkbox|radio|number)"/;

it("lets the browser neither send nor store the text of a field", () => {
  const fields = Object.entries(sources).flatMap(([file, source]) =>
    [...source.matchAll(FIELD)].map(([field]) => ({ file, field })),
  );
  const texts = fields.filter(({ field }) => !WITHOUT_TEXT.test(field));
  expect(texts.length).toBeGreaterThan(6);
  for (const { file, field } of texts) {
    expect(field, file).toContain("spellCheck={false}");
    expect(field, file).toContain('autoComplete="off"');
  }
  expect(html).toContain('writingsuggestions="false"');
});
