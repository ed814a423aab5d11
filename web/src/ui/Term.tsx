import { type ReactNode, useId } from "react";
import { useFloating } from "./floating";
import "./floating.css";

/** A technical term; pressing it shows its meaning in one sentence. */
export function Term({ children, meaning }: { children: ReactNode; meaning: string }) {
  const id = useId();
  const { anchor, panel, shown, show, hide } = useFloating<HTMLButtonElement, HTMLSpanElement>();
  return (
    <>
      <button
        ref={anchor}
        type="button"
        className="term"
        aria-expanded={shown}
        aria-describedby={shown ? id : undefined}
        onClick={shown ? hide : show}
        onBlur={hide}
      >
        {children}
      </button>
      <span ref={panel} id={id} role="note" popover="manual" className="floating">
        {meaning}
      </span>
    </>
  );
}
