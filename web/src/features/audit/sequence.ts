import type { AuditSummary } from "@clearseal/verifier";
import { count, plural } from "../../ui/format";
import { faceOf } from "./audit";

/** What the numbers of one enclave's receipts say about receipts that are not here. */
export interface Sequence {
  readonly signer: string;
  readonly first: number;
  readonly last: number;
  /** Different receipts. */
  readonly receipts: number;
  /** Numbers between first and last that no receipt here has, both ends included. */
  readonly gaps: readonly (readonly [number, number])[];
  readonly missing: number;
  /** Receipts before the first one here: an enclave counts from 1. */
  readonly before: number;
  /** Numbers that more than one different receipt has: an enclave never signs that. */
  readonly repeats: readonly { readonly sequence: number; readonly indices: readonly number[] }[];
  /** Receipts that are here more than once, byte for byte. */
  readonly copies: number;
}

/** One for each signer. Only receipts whose every check passed count: anybody can write a number. */
export function sequences(summaries: readonly AuditSummary[]): Sequence[] {
  const signers = new Map<string, Map<number, Map<string, number>>>();
  const copies = new Map<string, number>();
  for (const summary of summaries) {
    const face = faceOf(summary);
    const { signer, sequence, sha256, index } = summary;
    const counts = face === "verified" || face === "simulated" || face === "signed";
    if (!counts || !signer || sequence === null || !sha256) continue;
    const numbers = upsert(signers, signer, () => new Map<number, Map<string, number>>());
    const receipts = upsert(numbers, sequence, () => new Map<string, number>());
    if (receipts.has(sha256)) copies.set(signer, (copies.get(signer) ?? 0) + 1);
    else receipts.set(sha256, index);
  }
  return [...signers].map(([signer, numbers]) => of(signer, numbers, copies.get(signer) ?? 0));
}

/** Number of a key's first receipt: 0 is the place of the key itself in its log. */
const FIRST = 1;

/** More gaps or repeats than this are counted, not listed. */
const LISTED = 12;

/** What is missing, in words, one fact each. */
export function gapWords({ before, gaps, missing }: Sequence): string[] {
  const facts: string[] = [];
  if (before > 0) {
    const verb = before === 1 ? "is" : "are";
    facts.push(
      `${plural(before, "earlier receipt")} (${range([FIRST, FIRST + before - 1])}) ${verb} not here`,
    );
  }
  if (missing > 0) {
    facts.push(
      `${plural(gaps.length, "gap")}, ${plural(missing, "receipt")} missing: ${list(gaps.map(range))}`,
    );
  }
  return facts.length === 0 ? ["No gap"] : facts;
}

/** The first few, and how many more there are. */
export function list(parts: readonly string[]): string {
  const rest = parts.length - LISTED;
  return parts.slice(0, LISTED).join("; ") + (rest > 0 ? `; and ${count(rest)} more` : "");
}

function range([from, to]: readonly [number, number]): string {
  return from === to ? count(from) : `${count(from)} to ${count(to)}`;
}

function of(signer: string, numbers: Map<number, Map<string, number>>, copies: number): Sequence {
  const sorted = [...numbers.keys()].sort((a, b) => a - b);
  const gaps: [number, number][] = [];
  let missing = 0;
  for (let at = 1; at < sorted.length; at += 1) {
    const [before, after] = [sorted[at - 1] ?? 0, sorted[at] ?? 0];
    if (after - before <= 1) continue;
    gaps.push([before + 1, after - 1]);
    missing += after - before - 1;
  }
  const repeats = sorted.flatMap((sequence) => {
    const receipts = numbers.get(sequence);
    return receipts && receipts.size > 1 ? [{ sequence, indices: [...receipts.values()] }] : [];
  });
  let receipts = 0;
  for (const different of numbers.values()) receipts += different.size;
  return {
    signer,
    first: sorted[0] ?? 0,
    last: sorted.at(-1) ?? 0,
    receipts,
    gaps,
    missing,
    before: Math.max((sorted[0] ?? 1) - FIRST, 0),
    repeats,
    copies,
  };
}

function upsert<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
