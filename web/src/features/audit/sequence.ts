import type { AuditSummary } from "@clearseal/verifier";
import { count, plural } from "../../ui/format";
import { faceOf } from "./audit";

/** Sequence numbers of one receipt key, and the gaps in them. */
export interface Sequence {
  readonly signer: string;
  readonly first: number;
  readonly last: number;
  /** Number of different receipts. */
  readonly receipts: number;
  /** Ranges of missing numbers between first and last, both ends included. */
  readonly gaps: readonly (readonly [number, number])[];
  readonly missing: number;
  /** Missing receipts before the first: an enclave counts from 1. */
  readonly before: number;
  /** Numbers of several different receipts, which an honest enclave never signs. */
  readonly repeats: readonly { readonly sequence: number; readonly indices: readonly number[] }[];
  /** Byte-identical copies. */
  readonly copies: number;
}

/** One sequence per signer. Counts only receipts that passed every check: anyone can write a number. */
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
  return [...signers].map(([signer, numbers]) => toSequence(signer, numbers, copies.get(signer) ?? 0));
}

/** Number of a key's first receipt: leaf 0 of its log is the key itself. */
const FIRST = 1;

/** Further gaps or repeats are counted, not listed. */
const MAX_LISTED = 12;

/** Describes the missing receipts, one fact per string. */
export function describeGaps({ before, gaps, missing }: Sequence): string[] {
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

/** Lists the first parts, and the number of further ones. */
export function list(parts: readonly string[]): string {
  const rest = parts.length - MAX_LISTED;
  return parts.slice(0, MAX_LISTED).join("; ") + (rest > 0 ? `; and ${count(rest)} more` : "");
}

function range([from, to]: readonly [number, number]): string {
  return from === to ? count(from) : `${count(from)} to ${count(to)}`;
}

function toSequence(signer: string, numbers: Map<number, Map<string, number>>, copies: number): Sequence {
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
