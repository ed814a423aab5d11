import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";

interface VirtualListProps<T> {
  readonly label: string;
  readonly items: readonly T[];
  /** Index of the chosen item; -1 for none. */
  readonly chosen: number;
  readonly onChoose: (place: number) => void;
  readonly render: (item: T) => ReactNode;
}

/** Height of a row in pixels, as in the style sheet. */
const ROW = 44;
const VISIBLE = 9;
/** Rows rendered beyond the visible ones, in each direction. */
const OVERSCAN = 6;

/**
 * Range of rows to render, end excluded, at scroll offset `top`. A list that became shorter keeps its old offset: then its end is
 * rendered.
 */
export function visibleRange(top: number, total: number): readonly [first: number, last: number] {
  const shown = Math.min(top / ROW, Math.max(0, total - VISIBLE));
  return [Math.max(0, Math.floor(shown) - OVERSCAN), Math.min(total, Math.ceil(shown) + VISIBLE + OVERSCAN)];
}

/** A list of any length that renders only its visible rows. Arrow keys move, Home and End jump. */
export function VirtualList<T>({ label, items, chosen, onChoose, render }: VirtualListProps<T>) {
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [first, last] = visibleRange(top, items.length);

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
          // The list box handles the keys (ARIA Authoring Practices, listbox pattern).
          // biome-ignore lint/a11y/useKeyWithClickEvents: see above
          // biome-ignore lint/a11y/useFocusableInteractive: aria-activedescendant replaces focus
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
