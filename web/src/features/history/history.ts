import type { ReceiptReport } from "@clearseal/verifier";
import { count } from "../../ui/format";

/** One receipt that this browser keeps, as an audit bundle without text and vectors. */
export interface Kept {
  /** SHA-256 of the bundle in hex, so that a receipt is kept only once. */
  readonly id: string;
  /** JSON of the bundle, as one line. */
  readonly bundle: string;
  /** The verdict and claims on arrival; null for an imported receipt that has not been checked here. */
  readonly summary: Summary | null;
}

export interface Summary {
  readonly verdict: ReceiptReport["verdict"];
  /** Origin of the policy of the verdict; absent in records of an earlier version. */
  readonly origin?: string | null;
  /** Unix milliseconds. */
  readonly issuedAtMs: number;
  readonly sequence: number;
  readonly model: string;
  /** Number of items in the request. */
  readonly items: number;
}

/** Above this number, the oldest receipts are dropped; users can export them before. */
export const MAX_KEPT = 2_000;

export const FORMAT = "clearseal-audit-bundle/1";

export type Imported =
  | { readonly status: "read"; readonly bundles: readonly string[] }
  | { readonly status: "refused"; readonly why: string };

/** Parses the output of [`toJsonl`], one bundle per line. Rejects the whole file on any error, so that no receipt is lost unnoticed. */
export function fromJsonl(text: string): Imported {
  const bundles: string[] = [];
  for (const [index, line] of text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .entries()) {
    if (line.trim() === "") continue;
    const bundle = oneLine(line);
    if (bundle === null) return { status: "refused", why: `Line ${index + 1} is not an audit bundle.` };
    bundles.push(bundle);
  }
  if (bundles.length === 0) return { status: "refused", why: "The file contains no audit bundle." };
  if (bundles.length > MAX_KEPT) {
    return {
      status: "refused",
      why: `The file contains ${count(bundles.length)} bundles; this page keeps at most ${count(MAX_KEPT)}.`,
    };
  }
  return { status: "read", bundles };
}

/** The same bundle without line breaks; null if it is not a bundle. */
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

/** Adds receipts, newest first. A known receipt keeps its position. */
export function withKept(before: readonly Kept[], more: readonly Kept[]): readonly Kept[] {
  const known = new Set(before.map(({ id }) => id));
  const fresh: Kept[] = [];
  for (const one of more) {
    if (known.has(one.id)) continue;
    known.add(one.id);
    fresh.unshift(one);
  }
  return fresh.length === 0 ? before : [...fresh, ...before].slice(0, MAX_KEPT);
}
