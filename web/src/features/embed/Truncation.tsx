import "../../ui/badge.css";
import { count } from "../../ui/format";
import "./cut.css";
import type { EmbeddedItem } from "./item";

/** Marks a text of which the model read only the beginning. */
export function CutBadge() {
  return <span className="badge badge-checking">cut</span>;
}

/** Number and text of an item, with a badge if the text was cut. */
export function ItemText({ item }: { item: EmbeddedItem | undefined }) {
  if (!item) return null;
  return (
    <>
      <span className="muted number">{item.index + 1}</span> <bdi>{item.text}</bdi>{" "}
      {item.truncated && <CutBadge />}
    </>
  );
}

const MAX_NUMBERS_LISTED = 12;

/** States above the result how many texts were cut, and which. */
export function CutNote({ items }: { items: readonly EmbeddedItem[] }) {
  const cut = items.filter(({ truncated }) => truncated);
  if (cut.length === 0) return null;
  const named = cut.slice(0, MAX_NUMBERS_LISTED).map(({ index }) => index + 1);
  const more = cut.length > named.length ? ` and ${count(cut.length - named.length)} more` : "";
  const tokens = cut.reduce((most, item) => Math.max(most, item.tokens ?? 0), 0);
  return (
    <p className="cut-note small">
      <strong>
        {count(cut.length)} of {count(items.length)} {items.length === 1 ? "text was" : "texts were"} longer
        than the model reads.
      </strong>{" "}
      {cut.length === 1 ? "Its vector does" : "Their vectors do"} not include anything after token{" "}
      {count(tokens)}: item {named.join(", ")}
      {more}. Cut such texts into parts that fit.
    </p>
  );
}
