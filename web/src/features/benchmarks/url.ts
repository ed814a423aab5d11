import { useCallback, useMemo, useSyncExternalStore } from "react";

/** State in a link to the dashboard: the view, the chosen runs, and the two runs to compare. */
export interface LinkState {
  readonly view: string | null;
  readonly runs: readonly string[] | null;
  readonly compare: readonly [string, string] | null;
}

/** Reads `?view=latency&runs=a,b&compare=a,b`. */
export function parseLink(search: string): LinkState {
  const query = new URLSearchParams(search);
  const list = (name: string) => query.get(name)?.split(",").filter(Boolean) ?? null;
  const [a, b] = list("compare") ?? [];
  return { view: query.get("view"), runs: list("runs"), compare: a && b ? [a, b] : null };
}

/** The query string of a state, without defaults. */
export function toSearch({ view, runs, compare }: LinkState): string {
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

/** The state in the current address, and a function to change it. A change of view adds a history entry; others replace it. */
export function useLinkState(): readonly [LinkState, (change: Partial<LinkState>) => void] {
  const search = useSyncExternalStore(subscribe, () => location.search);
  const place = useMemo(() => parseLink(search), [search]);
  const go = useCallback((change: Partial<LinkState>) => {
    const next = `${location.pathname}${toSearch({ ...parseLink(location.search), ...change })}`;
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
