import { expect, it } from "vitest";
import html from "../../index.html?raw";

const pages = import.meta.glob<string>(["../features/*/*Page.tsx"], {
  query: "?raw",
  import: "default",
  eager: true,
});

/** Visible text: without markup, one space between words. */
const visibleText = (text: string) =>
  text
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .trim();
const head = /<h1[^>]*>([^<]*)<\/h1>\s*<p className="muted prose">([^<]*)<\/p>/;

it("paints the same head and lead of each page before its script", () => {
  const heads = Object.values(pages).flatMap((source) => {
    const [, title, lead] = head.exec(source) ?? [];
    return title && lead ? [`${visibleText(title)} ${visibleText(lead)}`] : [];
  });
  expect(heads).toHaveLength(3);
  for (const one of heads) expect(visibleText(html)).toContain(one);
});
