import { useState } from "react";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import { count, fixed, plural } from "../../ui/format";
import { Term } from "../../ui/Term";
import "../../ui/table.css";
import { shortest } from "./export";
import type { EmbeddedItem } from "./item";
import { CutBadge } from "./Truncation";
import "./vectors.css";

const PAGE = 50;
const HEAD = 3;

/** The first numbers of each vector; all of them on request. */
export function VectorsTable({ items }: { items: readonly EmbeddedItem[] }) {
  const [shown, setShown] = useState(PAGE);
  const dimension = items[0]?.vector.length ?? 0;
  return (
    <>
      <table className="table table-cards vectors">
        <caption className="muted tiny">
          {plural(items.length, "vector")} of {count(dimension)} numbers, 32-bit
        </caption>
        <thead>
          <tr>
            <th scope="col">Item</th>
            <th scope="col" className="end">
              <Term meaning="The pieces of words that the model reads. It reads at most a fixed number of them.">
                Tokens
              </Term>
            </th>
            <th scope="col">Vector</th>
          </tr>
        </thead>
        <tbody>
          {items.slice(0, shown).map((item) => (
            <VectorRow key={item.index} item={item} />
          ))}
        </tbody>
      </table>
      {items.length > shown && (
        <p className="vectors-more">
          <Button onClick={() => setShown(shown + PAGE)}>
            Show {Math.min(PAGE, items.length - shown)} more of {count(items.length)}
          </Button>
        </p>
      )}
    </>
  );
}

function VectorRow({ item }: { item: EmbeddedItem }) {
  const [whole, setWhole] = useState(false);
  const { index, text, tokens, truncated, vector } = item;
  const all = () => `[${Array.from(vector, shortest).join(", ")}]`;
  return (
    <tr>
      <th scope="row">
        <div className="vectors-item">
          <span className="muted number">{index + 1}</span>
          <span className="vectors-text" dir="auto">
            {text}
          </span>
        </div>
      </th>
      <td className="end" data-label="Tokens">
        {tokens === null ? "" : count(tokens)}
        {truncated && (
          <>
            {" "}
            <Term meaning="The text was longer than the model reads. The vector does not include the part after the limit.">
              <CutBadge />
            </Term>
          </>
        )}
      </td>
      <td>
        <code className="vectors-head">
          {Array.from(vector.subarray(0, HEAD), (value) => fixed(value, 4).padStart(7)).join("  ")}
          {vector.length > HEAD && "  …"}
        </code>
        <span className="vectors-actions">
          <Button kind="quiet" aria-expanded={whole} onClick={() => setWhole(!whole)}>
            {whole ? "Less" : `All ${count(vector.length)}`}
          </Button>
          <CopyButton kind="quiet" text={all} label="Copy" />
        </span>
        {whole && <code className="vectors-whole">{all()}</code>}
      </td>
    </tr>
  );
}
