import { type ReactNode, startTransition, useEffect, useRef, useState } from "react";
import "./picture.css";
import { scheduleDraw } from "./draw-queue";

interface PictureProps {
  /** In pixels; reserved until the chart is drawn. */
  readonly height: number;
  readonly children: (width: number) => ReactNode;
}

/** Container of a chart, as wide as its column. Charts of a page are drawn one after the other. */
export function Picture({ height, children }: PictureProps) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [drawn, setDrawn] = useState<{ readonly chart: ReactNode; readonly done: () => void }>();

  useEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry?.contentRect.width ?? 0)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (width === 0) return;
    return scheduleDraw((done) => startTransition(() => setDrawn({ chart: children(width), done })));
  }, [width, children]);

  useEffect(() => drawn?.done(), [drawn]);

  return (
    <div ref={box} className="picture" style={{ height }}>
      {drawn?.chart}
    </div>
  );
}
