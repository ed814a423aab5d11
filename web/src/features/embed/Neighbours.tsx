import { useCallback, useId, useMemo } from "react";
import { fixed, plural } from "../../ui/format";
import { useSliced } from "../../ui/slices";
import { CutBadge } from "./Truncation";
import "./neighbours.css";
import type { EmbeddedItem } from "./item";
import { type Neighbour, neighbours } from "./vectors";

const SHOWN = 8;

interface NeighboursProps {
  readonly items: readonly EmbeddedItem[];
  readonly selected: number;
  readonly onSelect: (place: number) => void;
}

/** The items closest to the chosen one. Pressing one chooses it. */
export function Neighbours({ items, selected, onSelect }: NeighboursProps) {
  const id = useId();
  const vectors = useMemo(() => items.map(({ vector }) => vector), [items]);
  const rank = useCallback(() => neighbours(vectors, selected, SHOWN), [vectors, selected]);
  const closest = useSliced(rank) ?? [];
  const last = (items.at(-1)?.index ?? 0) + 1;
  return (
    <section className="neighbours" aria-labelledby={id}>
      <div className="neighbours-head">
        <h3 id={id}>Nearest to item</h3>
        <input
          type="number"
          aria-label={`Item, 1 to ${last}`}
          min={1}
          max={last}
          value={(items[selected]?.index ?? 0) + 1}
          onChange={(event) => {
            // A failed item has no vector: select the next item that has one.
            const place = items.findIndex(({ index }) => index + 1 >= event.target.valueAsNumber);
            if (place >= 0) onSelect(place);
          }}
        />
        <span className="muted small">of {plural(items.length, "item")}</span>
      </div>
      <p className="neighbours-of">
        <bdi>{items[selected]?.text}</bdi> {items[selected]?.truncated && <CutBadge />}
      </p>
      <Ranking items={items} closest={closest} onSelect={onSelect} />
    </section>
  );
}

/** Items ordered by cosine, closest first. */
export function Ranking({
  items,
  closest,
  onSelect,
}: {
  readonly items: readonly EmbeddedItem[];
  readonly closest: readonly Neighbour[];
  readonly onSelect: (place: number) => void;
}) {
  return (
    <ol className="ranking">
      {closest.map(({ index, cosine }) => (
        <li key={index}>
          <button type="button" onClick={() => onSelect(index)}>
            <span className="number neighbours-value">{fixed(cosine, 3)}</span>
            <svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
              <rect className="bar-all" width="100" height="4" />
              <rect className="bar" width={Math.max(0, cosine) * 100} height="4" />
            </svg>
            <span className="neighbours-text" dir="auto">
              {items[index]?.text}
            </span>
            {items[index]?.truncated && <CutBadge />}
          </button>
        </li>
      ))}
    </ol>
  );
}
