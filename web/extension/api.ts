import type { WatchedPage } from "./release.ts";
import type { TabState } from "./state.ts";

/** Firefox names its interfaces `browser`, and Chromium names the same ones `chrome`. */
export const api: WebExtension = typeof browser === "undefined" ? chrome : browser;

/** Firefox alone gives an extension the bytes that run. */
export const readsAnswers = api.webRequest?.filterResponseData !== undefined;

const PAGES = "pages";
const TAB = "tab.";

/** A tab's state. A request of an earlier load has another number. */
export interface StoredTab {
  readonly load: number;
  readonly state: TabState;
}

/** Pages that the user added, and those that the publisher of this extension built in. */
export async function readPages(): Promise<WatchedPage[]> {
  const { [PAGES]: added } = await api.storage.local.get(PAGES);
  return [...__CLEARSEAL_PAGES__, ...((added as WatchedPage[] | undefined) ?? [])];
}

export function addPage(page: WatchedPage): Promise<void> {
  return changePages(page.origin, [page]);
}

export function removePage(origin: string): Promise<void> {
  return changePages(origin, []);
}

/** Replaces the entry of an origin. Two tabs with the options may be open, so each waits for the other's write. */
function changePages(origin: string, entry: readonly WatchedPage[]): Promise<void> {
  return navigator.locks.request(PAGES, async () => {
    const { [PAGES]: added } = await api.storage.local.get(PAGES);
    const others = ((added as WatchedPage[] | undefined) ?? []).filter((page) => page.origin !== origin);
    await api.storage.local.set({ [PAGES]: [...others, ...entry] });
  });
}

export async function readTab(id: number): Promise<StoredTab | null> {
  const key = TAB + id;
  return ((await api.storage.session.get(key))[key] as StoredTab | undefined) ?? null;
}

export async function writeTab(id: number, tab: StoredTab): Promise<void> {
  await api.storage.session.set({ [TAB + id]: tab });
}

export async function forgetTab(id: number): Promise<void> {
  await api.storage.session.remove(TAB + id);
}

/** All tabs with a page of this origin. */
export async function findTabs(origin: string): Promise<number[]> {
  const all = Object.entries(await api.storage.session.get(null));
  return all
    .filter(([key, tab]) => key.startsWith(TAB) && (tab as StoredTab).state.origin === origin)
    .map(([key]) => Number(key.slice(TAB.length)));
}

const NEWEST = "newest.";

/**
 * Records the time of a signature for an origin, in Unix seconds. False if an older time than the newest one that was seen: a repeated
 * signature is not older. Callers must not overlap.
 */
export async function raiseNewest(origin: string, signed: number): Promise<boolean> {
  const key = NEWEST + origin;
  const newest = ((await api.storage.local.get(key))[key] as number | undefined) ?? 0;
  if (signed > newest) await api.storage.local.set({ [key]: signed });
  return signed >= newest;
}
