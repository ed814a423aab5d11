import type { ReceiptReport } from "@clearseal/verifier";

/** One receipt that this browser keeps, as an audit bundle without text and vectors. */
export interface Kept {
  /** SHA-256 of the bundle, hex: the same receipt is never kept twice. */
  readonly id: string;
  /** JSON of the bundle, as one line. */
  readonly bundle: string;
  /** What the receipt said when it came; null where it was imported and nobody has judged it here. */
  readonly summary: Summary | null;
}

export interface Summary {
  readonly verdict: ReceiptReport["verdict"];
  /** Who chose the policy that led to it; absent in what an earlier version kept. */
  readonly origin?: string | null;
  /** Unix milliseconds. */
  readonly issuedAtMs: number;
  readonly sequence: number;
  readonly model: string;
  /** How many items the request held. */
  readonly items: number;
}

/** More are not kept: the oldest make room, and whoever wants them exports them before. */
export const MOST_KEPT = 2_000;

export const FORMAT = "clearseal-audit-bundle/1";

export type Imported =
  | { readonly status: "read"; readonly bundles: readonly string[] }
  | { readonly status: "refused"; readonly why: string };

/** Reads what [`toJsonl`] wrote: one bundle a line. All or nothing, so that no receipt gets lost unseen. */
export function fromJsonl(text: string): Imported {
  const bundles: string[] = [];
  for (const [index, line] of text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .entries()) {
    if (line.trim() === "") continue;
    const bundle = oneLine(line);
    if (bundle === null) return { status: "refused", why: `Line ${index + 1} is no audit bundle.` };
    bundles.push(bundle);
  }
  if (bundles.length === 0) return { status: "refused", why: "It holds no audit bundle." };
  if (bundles.length > MOST_KEPT) {
    return {
      status: "refused",
      why: `It holds ${bundles.length} bundles; ${MOST_KEPT} at most are kept here.`,
    };
  }
  return { status: "read", bundles };
}

/** The same bundle without line breaks; null where it is none. */
export function oneLine(json: string): string | null {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return null;
  }
  const known = typeof value === "object" && value !== null && "format" in value && value.format === FORMAT;
  return known ? JSON.stringify(value) : null;
}

export function toJsonl(kept: readonly Kept[]): string {
  return kept.map(({ bundle }) => `${bundle}\n`).join("");
}

/** Newest first. One that is there already stays where it is. */
export function withKept(before: readonly Kept[], more: readonly Kept[]): readonly Kept[] {
  const known = new Set(before.map(({ id }) => id));
  const fresh: Kept[] = [];
  for (const one of more) {
    if (known.has(one.id)) continue;
    known.add(one.id);
    fresh.unshift(one);
  }
  return fresh.length === 0 ? before : [...fresh, ...before].slice(0, MOST_KEPT);
}
