import "../../ui/badge.css";
import { count } from "../../ui/format";
import "./cut.css";
import type { EmbeddedItem } from "./Results";

/** Beside every text of which the model read the beginning alone. */
export function CutBadge() {
  return <span className="badge badge-checking">cut</span>;
}

/** Number and text of an item, and whether all of it was read. */
export function ItemText({ item }: { item: EmbeddedItem | undefined }) {
  if (!item) return null;
  return (
    <>
      <span className="muted number">{item.index + 1}</span> {item.text} {item.truncated && <CutBadge />}
    </>
  );
}

const NAMED = 12;

/** Above every view of a result: how many texts were cut, and which. */
export function CutNote({ items }: { items: readonly EmbeddedItem[] }) {
  const cut = items.filter(({ truncated }) => truncated);
  if (cut.length === 0) return null;
  const named = cut.slice(0, NAMED).map(({ index }) => index + 1);
  const more = cut.length > named.length ? ` and ${count(cut.length - named.length)} more` : "";
  const tokens = cut.reduce((most, item) => Math.max(most, item.tokens ?? 0), 0);
  return (
    <p className="cut-note small">
      <strong>
        {count(cut.length)} of {count(items.length)} {items.length === 1 ? "text was" : "texts were"} longer
        than the model reads.
      </strong>{" "}
      What came after token {count(tokens)} is not in {cut.length === 1 ? "its vector" : "their vectors"}:
      item {named.join(", ")}
      {more}. Cut such texts into parts that fit.
    </p>
  );
}
