import { useCallback, useEffect, useRef, useState } from "react";

const FEEDBACK_MS = 2_000;

export interface Copy {
  /** True for two seconds after a copy. */
  copied: boolean;
  /** The browser refused to write to the clipboard. */
  refused: boolean;
  copy(text: string): void;
}

/** Writes to the clipboard, and reports success or failure. */
export function useCopy(): Copy {
  const [outcome, setOutcome] = useState<"idle" | "copied" | "refused">("idle");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);

  const copy = useCallback((text: string) => {
    const report = (result: "copied" | "refused") => {
      setOutcome(result);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setOutcome("idle"), FEEDBACK_MS);
    };
    // `navigator.clipboard` is undefined outside a secure context.
    const writing = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));
    writing.then(
      () => report("copied"),
      () => report("refused"),
    );
  }, []);

  return { copied: outcome === "copied", refused: outcome === "refused", copy };
}
