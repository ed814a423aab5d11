import type { Comparison } from "./release.ts";

/** One file that is not the release's. */
export interface Difference {
  readonly url: string;
  readonly why: Exclude<Comparison, "same"> | "redirected" | "header";
}

/** Content of one tab, from its last navigation to a watched page on. */
export interface TabState {
  readonly origin: string;
  /** Null while it loads, and if there is none. */
  readonly release: { readonly name: string; readonly commit: string; readonly signed: number } | null;
  /** Why no release is verified. */
  readonly problem: string | null;
  /** Requests whose answers are not compared yet. */
  readonly waiting: number;
  readonly same: number;
  /** Whether a document is among the compared answers. */
  readonly hasDocument: boolean;
  readonly differences: readonly Difference[];
  /** An earlier load in this tab differed. The browser may restore it without a request, so it counts until the tab is closed. */
  readonly differedBefore: boolean;
  /** An earlier load in this tab had no release to compare with, and may be restored, too. */
  readonly unknownBefore: boolean;
  /** Requests of earlier loads whose answers are not compared yet. */
  readonly waitingBefore: number;
}

export type Event =
  | { readonly type: "navigated"; readonly origin: string }
  | { readonly type: "asked" }
  | { readonly type: "loaded"; readonly release: NonNullable<TabState["release"]> }
  | { readonly type: "unavailable"; readonly problem: string }
  | { readonly type: "compared"; readonly url: string; readonly isDocument: boolean; readonly found: Found }
  | { readonly type: "skipped" };

/** Null where no release is there to compare with. */
export type Found = "same" | Difference["why"] | null;

/** Differences that a popup can show; a host could send any number. */
const MAX_DIFFERENCES = 100;

/** Pure. Null is a tab without a watched page. */
export function advance(state: TabState | null, event: Event): TabState | null {
  if (event.type === "navigated") {
    return {
      origin: event.origin,
      release: null,
      problem: null,
      waiting: 0,
      same: 0,
      hasDocument: false,
      differences: [],
      differedBefore: state !== null && (state.differedBefore || state.differences.length > 0),
      unknownBefore: state !== null && (state.unknownBefore || state.problem !== null),
      waitingBefore: state === null ? 0 : state.waitingBefore + state.waiting,
    };
  }
  if (!state) return null;
  switch (event.type) {
    case "asked":
      return { ...state, waiting: state.waiting + 1 };
    case "loaded":
      return { ...state, release: event.release };
    case "unavailable":
      return { ...state, problem: event.problem };
    case "skipped":
      return { ...state, waiting: Math.max(0, state.waiting - 1) };
    case "compared": {
      const { url, found, isDocument } = event;
      const next = { ...state, waiting: Math.max(0, state.waiting - 1) };
      if (found === null) return next;
      if (found === "same") {
        return { ...next, same: state.same + 1, hasDocument: state.hasDocument || isDocument };
      }
      if (state.differences.length >= MAX_DIFFERENCES) return next;
      return { ...next, differences: [...state.differences, { url, why: found }] };
    }
  }
}

/** Pure. State of a tab after an event of an earlier load, which the browser may restore. */
export function advanceEarlier(state: TabState, event: Event): TabState {
  const next = { ...state, waitingBefore: Math.max(0, state.waitingBefore - 1) };
  switch (event.type) {
    case "navigated":
    case "loaded":
      return state;
    case "asked":
      return { ...state, waitingBefore: state.waitingBefore + 1 };
    case "unavailable":
      return { ...state, unknownBefore: true };
    case "skipped":
      return next;
    case "compared":
      return event.found === null || event.found === "same" ? next : { ...next, differedBefore: true };
  }
}

/** The word in the toolbar. */
export type Status = "verified" | "differs" | "checking" | "unknown";

export function summarize(state: TabState | null): Status {
  if (!state) return "unknown";
  if (state.differences.length > 0 || state.differedBefore) return "differs";
  if (state.problem !== null || state.unknownBefore) return "unknown";
  if (state.waiting + state.waitingBefore > 0 || state.release === null) return "checking";
  // Without the document's bytes nothing states which files the page is made of.
  return state.hasDocument ? "verified" : "unknown";
}
