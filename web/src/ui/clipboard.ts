import { useCallback, useEffect, useRef, useState } from "react";

const SAID_FOR_MS = 2_000;

export interface Copy {
  /** True for two seconds after a copy. */
  copied: boolean;
  /** The browser refused to write to the clipboard. */
  refused: boolean;
  copy(text: string): void;
}

/** Writes to the clipboard and says whether it did. */
export function useCopy(): Copy {
  const [outcome, setOutcome] = useState<"idle" | "copied" | "refused">("idle");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);

  const copy = useCallback((text: string) => {
    const say = (what: "copied" | "refused") => {
      setOutcome(what);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setOutcome("idle"), SAID_FOR_MS);
    };
    // Outside a secure context there is no clipboard at all.
    const writing = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));
    writing.then(
      () => say("copied"),
      () => say("refused"),
    );
  }, []);

  return { copied: outcome === "copied", refused: outcome === "refused", copy };
}
