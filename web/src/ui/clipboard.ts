import { useCallback, useEffect, useRef, useState } from "react";

const FEEDBACK_MS = 2_000;

export interface Copy {
  /** True for two seconds after a copy. */
  copied: boolean;
  /** The browser refused to write to the clipboard. */
  refused: boolean;
  copy(text: string | Promise<string>): void;
}

/** Writes to the clipboard, and reports success or failure. */
export function useCopy(): Copy {
  const [outcome, setOutcome] = useState<"idle" | "copied" | "refused">("idle");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);

  const copy = useCallback((text: string | Promise<string>) => {
    const report = (result: "copied" | "refused") => {
      setOutcome(result);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setOutcome("idle"), FEEDBACK_MS);
    };
    writeClipboard(text).then(
      () => report("copied"),
      () => report("refused"),
    );
  }, []);

  return { copied: outcome === "copied", refused: outcome === "refused", copy };
}

/** Writes to the clipboard, also a text that is still being made. */
export function writeClipboard(text: string | Promise<string>): Promise<void> {
  return typeof text === "string" ? write(text) : writeLater(text);
}

// `navigator.clipboard` is undefined outside a secure context.
function write(text: string): Promise<void> {
  return navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));
}

/** WebKit allows writing only during the user's action, so that a text that comes later is promised. */
function writeLater(text: Promise<string>): Promise<void> {
  if (typeof ClipboardItem === "undefined" || !navigator.clipboard) return text.then(write);
  const content = text.then((ready) => new Blob([ready], { type: "text/plain" }));
  // The browser may refuse before it reads the text.
  content.catch(() => undefined);
  return navigator.clipboard.write([new ClipboardItem({ "text/plain": content })]);
}
