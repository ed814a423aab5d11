import {
  type KeyboardEvent,
  type PointerEvent,
  useCallback,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
} from "react";
import { Button } from "../../ui/Button";
import { count, fixed } from "../../ui/format";
import { useSliced } from "../../ui/slices";
import { Term } from "../../ui/Term";
import "../../ui/table.css";
import "../../ui/reading.css";
import { describeCosine } from "./closeness";
import { CutBadge, ItemText } from "./Truncation";
import "./matrix.css";
import type { EmbeddedItem } from "./item";
import { colours, useThemeChange } from "./ramp";
import { similarities } from "./vectors";

/** More rows cannot be told apart on a screen. */
const MAX_ROWS = 200;

/** Rows up to this number show their text. */
const MAX_LABELLED = 12;

/** A wider table is hard to read. */
const MAX_TABLE_COLUMNS = 12;

const NOT_YET = new Float32Array(0);

interface MatrixProps {
  readonly items: readonly EmbeddedItem[];
  readonly selected: number;
  readonly onSelect: (place: number) => void;
}

/** Similarity of each pair of items as an image: darker is closer. Pointer and arrow keys read single values. */
export function Matrix({ items: all, selected, onSelect }: MatrixProps) {
  const id = useId();
  const items = useMemo(() => all.slice(0, MAX_ROWS), [all]);
  const size = items.length;
  const compare = useCallback(() => similarities(items.map(({ vector }) => vector)), [items]);
  const matrix = useSliced(compare) ?? NOT_YET;
  const low = useMemo(() => matrix.reduce((least, one) => Math.min(least, one), 0), [matrix]);
  const [column, setColumn] = useState(1);
  const [asTable, setAsTable] = useState(false);
  const row = Math.min(selected, size - 1);
  const across = Math.min(column, size - 1);
  const canvas = useRef<HTMLCanvasElement>(null);
  const probe = useRef<HTMLDivElement>(null);
  const theme = useThemeChange();

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new theme repaints the same numbers
  useEffect(() => {
    if (canvas.current && probe.current) paint(canvas.current, colours(probe.current), matrix, size, low);
  }, [matrix, size, low, theme]);

  const value = matrix[row * size + across] ?? 0;
  const point = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    const clamp = (share: number) => Math.min(size - 1, Math.max(0, Math.floor(share * size)));
    onSelect(clamp((event.clientY - box.top) / box.height));
    setColumn(clamp((event.clientX - box.left) / box.width));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const to = movedTo(event.key, event.ctrlKey || event.metaKey, row, across, size);
    if (!to) return;
    event.preventDefault();
    onSelect(to[0]);
    setColumn(to[1]);
  };

  return (
    <figure className="matrix">
      <div className="matrix-picture">
        {size <= MAX_LABELLED && (
          <ol className="matrix-rows" aria-hidden="true">
            {items.map(({ index, text }, place) => (
              <li key={index} dir="auto" data-selected={place === row}>
                {text}
              </li>
            ))}
          </ol>
        )}
        <div
          className="matrix-frame"
          role="application"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move over the picture
          tabIndex={0}
          aria-label={`Similarity of ${size} items. Arrow keys move from pair to pair, Home and End to the ends of a row.`}
          aria-describedby={`${id}-value`}
          onKeyDown={onKeyDown}
          onPointerMove={point}
          onPointerDown={point}
        >
          <canvas ref={canvas} width={size} height={size} />
          <svg viewBox={`0 0 ${size} ${size}`} preserveAspectRatio="none" aria-hidden="true">
            <rect className="matrix-cursor-halo" x={across} y={row} width="1" height="1" />
            <rect className="matrix-cursor" x={across} y={row} width="1" height="1" />
          </svg>
        </div>
        <div className="matrix-scale" aria-hidden="true">
          <span className="matrix-ramp" />
          <span className="number">1</span>
          <span className="number">{low === 0 ? "0" : fixed(low, 2)}</span>
        </div>
        <div ref={probe} className="matrix-probe" aria-hidden="true">
          <i />
          <i />
          <i />
        </div>
      </div>
      <figcaption className="matrix-caption">
        <output id={`${id}-value`} className="reading">
          <span className="matrix-value number">{matrix === NOT_YET ? "…" : fixed(value, 4)}</span>
          <span className="muted tiny">
            cosine similarity{matrix !== NOT_YET && `: ${describeCosine(value)}`}
          </span>
          <span className="matrix-item">
            <ItemText item={items[row]} />
          </span>
          <span className="matrix-item">
            <ItemText item={items[across]} />
          </span>
        </output>
        <p className="muted tiny">
          <Term meaning="1 means the same direction, 0 nothing in common. Sentences of the same meaning usually reach 0.7; about 0.3 is a loose relation, and less is chance. Each model has its own scale: compare values of one model only.">
            How to read it
          </Term>
          . Point at a square, or use the arrow keys.
          {all.length > MAX_ROWS &&
            ` Shows the first ${MAX_ROWS} of ${count(all.length)} items; the exports contain all of them.`}
        </p>
        <Button kind="quiet" aria-expanded={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? "Hide the table" : "Read as a table"}
        </Button>
      </figcaption>
      {asTable && <MatrixTable items={items} matrix={matrix} />}
    </figure>
  );
}

/** ARIA Authoring Practices, grid pattern: Home and End move within the row; with Ctrl, to the first and last cell of the grid. */
export function movedTo(
  key: string,
  whole: boolean,
  row: number,
  column: number,
  size: number,
): readonly [number, number] | null {
  const last = size - 1;
  switch (key) {
    case "ArrowUp":
      return [Math.max(0, row - 1), column];
    case "ArrowDown":
      return [Math.min(last, row + 1), column];
    case "ArrowLeft":
      return [row, Math.max(0, column - 1)];
    case "ArrowRight":
      return [row, Math.min(last, column + 1)];
    case "Home":
      return [whole ? 0 : row, 0];
    case "End":
      return [whole ? last : row, last];
    default:
      return null;
  }
}

function MatrixTable({ items, matrix }: { items: readonly EmbeddedItem[]; matrix: Float32Array }) {
  const shown = items.slice(0, MAX_TABLE_COLUMNS);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys scroll it on a narrow page
    <section className="matrix-table" aria-label="Similarity as a table" tabIndex={0}>
      <table className="table">
        <caption className="muted tiny">
          Cosine similarity
          {items.length > shown.length && ` of the first ${shown.length} items; save as CSV for all`}
        </caption>
        <thead>
          <tr>
            <th scope="col">Item</th>
            {shown.map(({ index }) => (
              <th key={index} scope="col" className="end">
                {index + 1}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map(({ index, text, truncated }, row) => (
            <tr key={index}>
              <th scope="row">
                <span className="muted number">{index + 1}</span>{" "}
                <span className="cut" dir="auto">
                  {text}
                </span>
                {truncated && <CutBadge />}
              </th>
              {shown.map((other, column) => (
                <td key={other.index} className="end">
                  {fixed(matrix[row * items.length + column] ?? 0, 3)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function paint(
  canvas: HTMLCanvasElement,
  table: Uint8ClampedArray,
  matrix: Float32Array,
  size: number,
  low: number,
): void {
  const context = canvas.getContext("2d");
  if (!context || size === 0 || matrix.length !== size * size) return;
  const image = context.createImageData(size, size);
  // One 32-bit write per pixel, for up to 40,000 pixels.
  const colours = new Uint32Array(table.buffer, table.byteOffset, table.length / 4);
  const pixels = new Uint32Array(image.data.buffer);
  for (let at = 0; at < matrix.length; at += 1) {
    const share = ((matrix[at] ?? 0) - low) / (1 - low);
    pixels[at] = colours[Math.round(Math.min(1, Math.max(0, share)) * 255)] ?? 0;
  }
  context.putImageData(image, 0, 0);
}
