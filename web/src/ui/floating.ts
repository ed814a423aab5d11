import { useCallback, useEffect, useRef, useState } from "react";

const GAP = 6;

/** A small panel in the top layer, next to its anchor. Escape, scrolling and `hide` close it. */
export function useFloating<A extends HTMLElement, P extends HTMLElement>() {
  const anchor = useRef<A>(null);
  const panel = useRef<P>(null);
  const [shown, setShown] = useState(false);

  const show = useCallback(() => setShown(true), []);
  const hide = useCallback(() => setShown(false), []);

  useEffect(() => {
    const [from, floating] = [anchor.current, panel.current];
    if (!shown || !from || !floating) return;
    floating.showPopover();
    place(from, floating);
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") hide();
    };
    document.addEventListener("keydown", onKey);
    window.addEventListener("scroll", hide, { passive: true, capture: true });
    window.addEventListener("resize", hide);
    return () => {
      document.removeEventListener("keydown", onKey);
      window.removeEventListener("scroll", hide, { capture: true });
      window.removeEventListener("resize", hide);
      if (floating.isConnected) floating.hidePopover();
    };
  }, [shown, hide]);

  return { anchor, panel, shown, show, hide };
}

/** Places the panel below the anchor if it fits, otherwise above; always inside the window. */
function place(anchor: HTMLElement, panel: HTMLElement): void {
  const from = anchor.getBoundingClientRect();
  const size = panel.getBoundingClientRect();
  const fitsBelow = from.bottom + GAP + size.height <= window.innerHeight;
  const top = fitsBelow ? from.bottom + GAP : Math.max(GAP, from.top - GAP - size.height);
  const left = Math.max(GAP, Math.min(from.left, window.innerWidth - size.width - GAP));
  panel.style.top = `${top}px`;
  panel.style.left = `${left}px`;
}
