import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";

interface VirtualListProps<T> {
  readonly label: string;
  readonly items: readonly T[];
  /** Place of the chosen item; -1 for none. */
  readonly chosen: number;
  readonly onChoose: (place: number) => void;
  readonly render: (item: T) => ReactNode;
}

/** Height of a row in pixels; the style sheet says the same. */
const ROW = 44;
const VISIBLE = 9;
/** Rows drawn beyond those that can be seen, each way. */
const SPARE = 6;

/**
 * Which rows are drawn, the last one left out, where `top` pixels are scrolled past. A list that became shorter is still scrolled as
 * the longer one was: then its end is drawn.
 */
export function drawnAt(top: number, total: number): readonly [first: number, last: number] {
  const shown = Math.min(top / ROW, Math.max(0, total - VISIBLE));
  return [Math.max(0, Math.floor(shown) - SPARE), Math.min(total, Math.ceil(shown) + VISIBLE + SPARE)];
}

/** A list of any length of which only what can be seen is in the page. Arrow keys move, Home and End jump. */
export function VirtualList<T>({ label, items, chosen, onChoose, render }: VirtualListProps<T>) {
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [first, last] = drawnAt(top, items.length);

  useEffect(() => {
    const { current } = box;
    if (!current || chosen < 0) return;
    const [begin, end] = [chosen * ROW, (chosen + 1) * ROW];
    if (begin < current.scrollTop) current.scrollTop = begin;
    else if (end > current.scrollTop + current.clientHeight) current.scrollTop = end - current.clientHeight;
  }, [chosen]);

  const onKeyDown = (event: KeyboardEvent) => {
    const to = {
      ArrowDown: chosen + 1,
      ArrowUp: chosen - 1,
      PageDown: chosen + VISIBLE,
      PageUp: chosen - VISIBLE,
      Home: 0,
      End: items.length - 1,
    }[event.key];
    if (to === undefined || items.length === 0) return;
    event.preventDefault();
    onChoose(Math.min(items.length - 1, Math.max(0, to)));
  };

  return (
    <div
      ref={box}
      role="listbox"
      aria-label={label}
      aria-activedescendant={chosen >= first && chosen < last ? `${id}-${chosen}` : undefined}
      tabIndex={0}
      className="virtual"
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
    >
      <svg className="virtual-space" height={first * ROW} aria-hidden="true" />
      {items.slice(first, last).map((item, offset) => {
        const place = first + offset;
        return (
          // The list box itself takes the keys, as the ARIA authoring practices ask.
          // biome-ignore lint/a11y/useKeyWithClickEvents: see above
          // biome-ignore lint/a11y/useFocusableInteractive: aria-activedescendant stands in for focus
          <div
            key={place}
            id={`${id}-${place}`}
            role="option"
            aria-selected={place === chosen}
            aria-posinset={place + 1}
            aria-setsize={items.length}
            className="virtual-row"
            onClick={() => onChoose(place)}
          >
            {render(item)}
          </div>
        );
      })}
      <svg className="virtual-space" height={Math.max(0, items.length - last) * ROW} aria-hidden="true" />
    </div>
  );
}
