import type { Difference, Status } from "./state.ts";

/** Text of the badge; the colour only repeats it. */
export const BADGES: Record<
  Status,
  { readonly text: string; readonly color: string; readonly title: string }
> = {
  verified: { text: "✓", color: "#1f6f43", title: "the signed release" },
  differs: { text: "!", color: "#a3261c", title: "differs from the signed release" },
  checking: { text: "…", color: "#5a5a5a", title: "comparing" },
  unknown: { text: "?", color: "#5a5a5a", title: "unknown" },
};

export const DIFFERENCES: Record<Difference["why"], string> = {
  bytes: "other bytes than the release's",
  unlisted: "not a file of the release",
  redirected: "redirected to another address",
  header: "a header adds a style sheet",
};
