import { hashBlake2b } from "./blake2b.ts";

/** Longest accepted text of a key or signature. */
export const MAX_TEXT = 8192;
/** Validity of a signature in seconds, as `clearseal release verify` applies it (crates/release/src/freshness.rs). */
export const MAX_AGE_SECONDS = 7 * 24 * 3600;
/** Greatest accepted advance of the publisher's clock in seconds. */
const SKEW_SECONDS = 300;

const COMMENT = "untrusted comment: ";
const TRUSTED = "trusted comment: ";

/** A publisher's public key. */
export interface PublicKey {
  readonly id: string;
  readonly key: Uint8Array<ArrayBuffer>;
}

/** Thrown with a sentence for the user. */
export class SignatureError extends Error {}

/** Reads the two lines of a key file, or only the second. */
export function parseKey(text: string): PublicKey {
  const lines = readLines(text);
  const [line, ...more] = lines[0]?.startsWith(COMMENT) ? lines.slice(1) : lines;
  const bytes = more.length === 0 ? decode(line) : null;
  if (bytes?.length !== 42 || ascii(bytes.subarray(0, 2)) !== "Ed") {
    throw new SignatureError(
      "The publisher's key is not a minisign key: two lines, or the second of them, as in RW….",
    );
  }
  return { id: hex(bytes.subarray(2, 10)), key: bytes.slice(10) };
}

/**
 * Verifies a prehashed minisign signature, as crates/release writes them: Ed25519 over BLAKE2b-512 of the file, and over that
 * signature with the trusted comment. Returns the time of signing in Unix seconds.
 */
export async function verifySignature(
  key: PublicKey,
  file: Uint8Array,
  signatureText: string,
): Promise<number> {
  const { id, overFile, comment, overAll } = parseSignature(signatureText);
  if (id !== key.id) throw new SignatureError("The release is signed by another key than the publisher's.");
  const imported = await crypto.subtle.importKey("raw", key.key, "Ed25519", false, ["verify"]);
  const verify = (signature: Uint8Array<ArrayBuffer>, message: Uint8Array<ArrayBuffer>) =>
    crypto.subtle.verify("Ed25519", imported, signature, message);
  const signed = concatenate(overFile, new TextEncoder().encode(comment));
  if (!(await verify(overFile, hashBlake2b(file))) || !(await verify(overAll, signed))) {
    throw new SignatureError("The signature is not over this release manifest and its comment.");
  }
  // As in a comment of minisign: timestamp:1795568784	file:hello	hashed
  const time = /^timestamp:(\d{1,12})(?:\s|$)/.exec(comment)?.[1];
  if (time === undefined) throw new SignatureError("The signature does not state when it was made.");
  return Number(time);
}

/** Throws unless a signature made at `signed` is valid at `now`, both in Unix seconds. */
export function checkFreshness(signed: number, now: number): void {
  if (signed > now + SKEW_SECONDS) {
    throw new SignatureError("The release was signed in the future: check this machine's clock.");
  }
  if (now - signed > MAX_AGE_SECONDS) {
    throw new SignatureError(
      "The release was last signed more than seven days ago: its publisher may have withdrawn it.",
    );
  }
}

function parseSignature(text: string) {
  const [first, second, third, fourth, ...more] = readLines(text);
  const head = decode(second);
  const overAll = decode(fourth);
  // "Ed" marks the older form over the file itself, which minisign has not written since 2022.
  if (
    text.length > MAX_TEXT ||
    !first?.startsWith(COMMENT) ||
    !third?.startsWith(TRUSTED) ||
    head?.length !== 74 ||
    ascii(head.subarray(0, 2)) !== "ED" ||
    overAll?.length !== 64 ||
    more.length > 0
  ) {
    throw new SignatureError("The signature is not a minisign signature over a hashed file.");
  }
  return {
    id: hex(head.subarray(2, 10)),
    overFile: head.slice(10),
    comment: third.slice(TRUSTED.length),
    overAll,
  };
}

/** Lines without a byte order mark and without empty lines at the end. */
function readLines(text: string): string[] {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/);
  while (lines.at(-1) === "") lines.pop();
  return lines;
}

function decode(line: string | undefined): Uint8Array<ArrayBuffer> | null {
  if (line === undefined || !/^[A-Za-z0-9+/]+={0,2}$/.test(line) || line.length % 4 !== 0) return null;
  return Uint8Array.from(atob(line), (character) => character.charCodeAt(0));
}

function concatenate(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(one.length + other.length);
  whole.set(one);
  whole.set(other, one.length);
  return whole;
}

function ascii(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
