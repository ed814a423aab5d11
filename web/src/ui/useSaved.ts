import { useEffect, useRef } from "react";

/** Pause after which a change is saved: also for a tab that ends without an event. */
const PAUSE_MS = 300;

/** Saves `value` after a pause in changes, and when the component unmounts, or the page is hidden, reloaded or left. */
export function useSaved<T>(value: T, save: (value: T) => void): void {
  const unsaved = useRef(value);
  const saveRest = useRef<(() => void) | null>(null);
  useEffect(() => {
    if (unsaved.current === value) return;
    unsaved.current = value;
    const saveNow = () => {
      saveRest.current = null;
      save(value);
    };
    saveRest.current = saveNow;
    const timer = setTimeout(saveNow, PAUSE_MS);
    addEventListener("pagehide", saveNow);
    return () => {
      clearTimeout(timer);
      removeEventListener("pagehide", saveNow);
    };
  }, [value, save]);
  useEffect(() => () => saveRest.current?.(), []);
}
