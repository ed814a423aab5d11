/**
 * Proofs of the pairs that `/v1/rerank` scored. The receipt commits to a tree with a leaf for each result; docs/RECEIPTS.md defines
 * every byte. Item i of the tree is the i-th result.
 */

import { SealedFetchError } from "./types.js";

/** A pair with its score, as the answer states them. */
export interface ScoredPair {
  readonly document: string;
  readonly score: number;
  readonly tokens: number;
  readonly truncated: boolean;
}

/** The line of evidence that all proofs of an answer share, and a line for each result, in their order. */
export interface Proofs {
  readonly evidence: string;
  readonly proofs: readonly string[];
}

/**
 * Recomputes the tree over `pairs` and compares its root with the one at the beginning of `content`, to which the verified receipt
 * commits. `bundle` is the audit bundle of the answer with its salt.
 *
 * Throws a {@link SealedFetchError} with the code `ITEMS_ROOT_MISMATCH` if a query, document, score or count is not the one that the
 * enclave signed.
 */
export async function provePairs(
  bundle: string,
  query: string,
  pairs: readonly ScoredPair[],
  content: Uint8Array,
): Promise<Proofs> {
  const { receipt, document, manifest, crls, salt } = JSON.parse(bundle) as Bundle;
  const secret = decode(salt);
  const salts = await Promise.all(
    pairs.map((_, index) => hash(text("clearseal/1 item salt\0"), secret, uint64(index))),
  );
  const asked = utf8(query);
  const leaves = await Promise.all(
    pairs.map(async (pair, index) => leafOf(index, salts[index] ?? EMPTY, asked, pair)),
  );
  const paths: Uint8Array[][] = pairs.map(() => []);
  const tree = await treeOf(leaves, 0, leaves.length, paths);
  const root = encode(await hash(text("clearseal/1 items\0"), uint64(pairs.length), tree));
  const stated = text(`${MARKER}${root}"`);
  if (stated.some((byte, at) => content[at] !== byte)) throw mismatch();
  const evidence = {
    format: "clearseal-vector-evidence/1",
    receipt,
    document,
    manifest,
    ...(crls !== undefined && { crls }),
    content_hash: encode(await hash(text("clearseal/1 response\0"), secret, content)),
    count: pairs.length,
  };
  const id = hex(await hash(decode(receipt)));
  const proofs = pairs.map(({ tokens, truncated }, index) =>
    JSON.stringify({
      format: "clearseal-vector-proof/1",
      evidence: id,
      index,
      tokens,
      truncated,
      salt: encode(salts[index] ?? EMPTY),
      path: (paths[index] ?? []).map(encode),
    }),
  );
  return { evidence: JSON.stringify(evidence), proofs };
}

/** Whether this runtime can compute the hashes: browsers hide WebCrypto from pages that are not served over https. */
export function canProve(): boolean {
  return globalThis.crypto?.subtle !== undefined;
}

/** Start of an answer with items, before the root (docs/RECEIPTS.md). */
const MARKER = '{"clearseal":{"items":"';
const EMPTY = new Uint8Array(0);

interface Bundle {
  readonly receipt: string;
  readonly document: string;
  readonly manifest: string;
  readonly crls?: string;
  readonly salt: string;
}

async function leafOf(
  index: number,
  salt: Uint8Array,
  query: Uint8Array,
  { document, score, tokens, truncated }: ScoredPair,
): Promise<Uint8Array> {
  const [input, vector] = await Promise.all([
    hash(text("clearseal/1 item input\0"), salt, [3], uint64(query.length), query, utf8(document)),
    hash(text("clearseal/1 item vector\0"), salt, float32(score)),
  ]);
  return hash(text("clearseal/1 item\0"), uint64(index), input, vector, uint32(tokens), [truncated ? 1 : 0]);
}

/** RFC 9162 §2.1.1: hash of the leaves from `start` to `end`. Adds to each leaf's path the hash of the other half (§2.1.3.1). */
async function treeOf(
  leaves: readonly Uint8Array[],
  start: number,
  end: number,
  paths: readonly Uint8Array[][],
): Promise<Uint8Array> {
  const count = end - start;
  if (count === 0) return hash();
  if (count === 1) return hash([0], leaves[start] ?? EMPTY);
  // The largest power of two below the count.
  const middle = start + 2 ** (31 - Math.clz32(count - 1));
  const [left, right] = [
    await treeOf(leaves, start, middle, paths),
    await treeOf(leaves, middle, end, paths),
  ];
  for (let at = start; at < end; at += 1) paths[at]?.push(at < middle ? right : left);
  return hash([1], left, right);
}

async function hash(...parts: readonly (Uint8Array | readonly number[])[]): Promise<Uint8Array> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

/** ASCII. */
function text(label: string): Uint8Array {
  return Uint8Array.from(label, (character) => character.charCodeAt(0));
}

function utf8(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

function uint64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value));
  return bytes;
}

function uint32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

function float32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setFloat32(0, value, true);
  return bytes;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Base64url without padding. */
function encode(bytes: Uint8Array): string {
  const base64 = btoa(String.fromCharCode(...bytes));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function decode(base64url: string): Uint8Array {
  return text(atob(base64url.replaceAll("-", "+").replaceAll("_", "/")));
}

function mismatch(): SealedFetchError {
  return new SealedFetchError(
    "ITEMS_ROOT_MISMATCH",
    "The root over the items is not the one that the answer states.",
    "Do not rely on the answer: its enclave committed to something else.",
  );
}
