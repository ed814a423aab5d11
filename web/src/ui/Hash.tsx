import { useCopy } from "./clipboard";
import { useFloating } from "./floating";
import "./floating.css";
import { shortHash } from "./format";
import { Icon } from "./Icon";

/** Head and tail of a long value. Focus and hover show all of it; pressing copies it. */
export function Hash({ value, label }: { value: string; label: string }) {
  const { anchor, panel, show, hide } = useFloating<HTMLButtonElement, HTMLSpanElement>();
  const { copied, refused, copy } = useCopy();
  const short = shortHash(value);
  return (
    <>
      <button
        ref={anchor}
        type="button"
        className="hash"
        aria-label={
          copied
            ? `Copied ${label}`
            : refused
              ? `The browser denied copying ${label}`
              : `Copy ${label}: ${short}`
        }
        onPointerEnter={show}
        onPointerLeave={hide}
        onFocus={show}
        onBlur={hide}
        onClick={() => copy(value)}
      >
        <span aria-hidden="true">{short}</span>
        <Icon name={copied ? "check" : "copy"} size={12} />
      </button>
      <span ref={panel} popover="manual" className="floating" aria-hidden="true">
        <span className="hash-whole">{value}</span>
        <span className="hash-hint">
          {copied ? "Copied" : refused ? "The browser denied it" : "Press to copy"}
        </span>
      </span>
    </>
  );
}
