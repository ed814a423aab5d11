import { expect, it } from "vitest";
import html from "../../index.html?raw";

const pages = import.meta.glob<string>(["../features/*/*Page.tsx"], {
  query: "?raw",
  import: "default",
  eager: true,
});

/** As a reader sees it: no markup, one space between words. */
const words = (text: string) =>
  text
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .trim();
const head = /<h1[^>]*>([^<]*)<\/h1>\s*<p className="muted prose">([^<]*)<\/p>/;

it("paints the head and the lead of each page before its script, in the same words", () => {
  const heads = Object.values(pages).flatMap((source) => {
    const [, title, lead] = head.exec(source) ?? [];
    return title && lead ? [`${words(title)} ${words(lead)}`] : [];
  });
  expect(heads).toHaveLength(3);
  for (const one of heads) expect(words(html)).toContain(one);
});
