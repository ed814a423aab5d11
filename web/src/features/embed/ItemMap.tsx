import { type KeyboardEvent, useCallback, useId, useMemo } from "react";
import { count } from "../../ui/format";
import { type Sliced, useSliced } from "../../ui/slices";
import { ItemText } from "./Truncation";
import "./item-map.css";
import type { EmbeddedItem } from "./item";
import { project } from "./vectors";

/** More points take noticeable time to draw and cannot be told apart. */
const MAX_POINTS = 500;

/** Points are numbered up to this count. */
const MAX_NUMBERED = 60;

/** Points carry their text up to this count. */
const MAX_LABELLED = 12;
const LABEL_LENGTH = 28;

const WIDTH = 560;
const HEIGHT = 400;
const MARGIN = 28;

interface ItemMapProps {
  readonly items: readonly EmbeddedItem[];
  readonly selected: number;
  readonly onSelect: (place: number) => void;
}

/** Items on the two axes along which they differ most (PCA). Distance on the map approximates; the cosine is exact. */
export function ItemMap({ items: all, selected, onSelect }: ItemMapProps) {
  const id = useId();
  const items = useMemo(() => all.slice(0, MAX_POINTS), [all]);
  const lay = useCallback(() => layOut(items), [items]);
  const laid = useSliced(lay);
  const { places, explained } = laid ?? EMPTY_LAYOUT;
  const at = Math.min(selected, items.length - 1);
  const onKeyDown = (event: KeyboardEvent) => {
    const to = {
      ArrowRight: at + 1,
      ArrowDown: at + 1,
      ArrowLeft: at - 1,
      ArrowUp: at - 1,
      Home: 0,
      End: items.length - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    onSelect((to + items.length) % items.length);
  };
  const ordered = [...places.keys()].sort((a, b) => Number(a === at) - Number(b === at));
  return (
    <figure className="map">
      <div
        className="map-frame"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move from item to item
        tabIndex={0}
        aria-label={`Map of ${items.length} items. Arrow keys move from item to item.`}
        aria-describedby={`${id}-reading`}
        onKeyDown={onKeyDown}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
          <path
            className="map-axis"
            d={`M${MARGIN / 2} ${HEIGHT / 2}H${WIDTH - MARGIN / 2}M${WIDTH / 2} ${MARGIN / 2}V${HEIGHT - MARGIN / 2}`}
          />
          {ordered.map((place) => {
            const [x, y] = places[place] ?? [0, 0];
            return (
              <g
                key={items[place]?.index}
                className="map-point"
                data-selected={place === at}
                transform={`translate(${x} ${y})`}
                onPointerEnter={() => onSelect(place)}
              >
                <circle className="map-reach" r="12" />
                <circle className="map-dot" r={place === at ? 7 : 5} />
                {items.length <= MAX_NUMBERED && (
                  <text x={x > WIDTH / 2 ? -10 : 10} y="4" textAnchor={x > WIDTH / 2 ? "end" : "start"}>
                    {(items[place]?.index ?? 0) + 1}
                    {items.length <= MAX_LABELLED && ` ${shortened(items[place]?.text ?? "")}`}
                  </text>
                )}
              </g>
            );
          })}
        </svg>
      </div>
      <figcaption>
        <output id={`${id}-reading`} className="map-reading">
          <ItemText item={items[at]} />
        </output>
        <p className="muted tiny">
          The map uses the two directions along which these items differ most. They show{" "}
          <span className="number">{Math.round((explained[0] + explained[1]) * 100)} %</span> of all
          differences
          <span className="number">
            {" "}
            ({Math.round(explained[0] * 100)} % across, {Math.round(explained[1] * 100)} % up)
          </span>
          . Items far apart on the map differ; items close together may differ too.
          {all.length > MAX_POINTS && ` Shows the first ${count(MAX_POINTS)} of ${count(all.length)} items.`}
        </p>
      </figcaption>
    </figure>
  );
}

function shortened(text: string): string {
  return text.length <= LABEL_LENGTH ? text : `${text.slice(0, LABEL_LENGTH - 1).trimEnd()}…`;
}

interface Layout {
  readonly places: readonly (readonly [number, number])[];
  readonly explained: readonly [number, number];
}

const EMPTY_LAYOUT: Layout = { places: [], explained: [0, 0] };

/** Both axes share one scale, so that distances are comparable. */
function* layOut(items: readonly EmbeddedItem[]): Sliced<Layout> {
  const { points, explained } = yield* project(items.map(({ vector }) => vector));
  const reach = (axis: 0 | 1) => Math.max(1e-9, ...points.map((point) => Math.abs(point[axis])));
  const scale = Math.min((WIDTH / 2 - MARGIN) / reach(0), (HEIGHT / 2 - MARGIN) / reach(1));
  const places = points.map(([x, y]): [number, number] => [WIDTH / 2 + x * scale, HEIGHT / 2 - y * scale]);
  return { places, explained };
}
