import { useCallback, useMemo, useSyncExternalStore } from "react";

/** What a link to the dashboard carries: the view, the runs chosen, and the two that are compared. */
export interface Place {
  readonly view: string | null;
  readonly runs: readonly string[] | null;
  readonly compare: readonly [string, string] | null;
}

/** Reads `?view=latency&runs=a,b&compare=a,b`. */
export function placeOf(search: string): Place {
  const query = new URLSearchParams(search);
  const list = (name: string) => query.get(name)?.split(",").filter(Boolean) ?? null;
  const [a, b] = list("compare") ?? [];
  return { view: query.get("view"), runs: list("runs"), compare: a && b ? [a, b] : null };
}

/** The query of a place, with what is the default left out. */
export function searchOf({ view, runs, compare }: Place): string {
  const parts = [
    view && `view=${encodeURIComponent(view)}`,
    runs && `runs=${runs.map(encodeKey).join(",")}`,
    compare && `compare=${compare.map(encodeKey).join(",")}`,
  ].filter(Boolean);
  return parts.length > 0 ? `?${parts.join("&")}` : "";
}

/** Slashes stay readable, as they may in a query (RFC 3986 §3.4). */
function encodeKey(key: string): string {
  return encodeURIComponent(key).replaceAll("%2F", "/");
}

const listeners = new Set<() => void>();

/** The place that the address names now, and a way to another. A change of view can be gone back from; a choice replaces. */
export function usePlace(): readonly [Place, (change: Partial<Place>) => void] {
  const search = useSyncExternalStore(subscribe, () => location.search);
  const place = useMemo(() => placeOf(search), [search]);
  const go = useCallback((change: Partial<Place>) => {
    const next = `${location.pathname}${searchOf({ ...placeOf(location.search), ...change })}`;
    if ("view" in change) history.pushState(null, "", next);
    else history.replaceState(null, "", next);
    for (const listener of listeners) listener();
  }, []);
  return [place, go];
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  addEventListener("popstate", listener);
  return () => {
    listeners.delete(listener);
    removeEventListener("popstate", listener);
  };
}
