import { useSyncExternalStore } from "react";

const query = matchMedia("(max-width: 559px)");

/** Whether the window has the width of a phone. */
export function useNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      query.addEventListener("change", listener);
      return () => query.removeEventListener("change", listener);
    },
    () => query.matches,
  );
}
