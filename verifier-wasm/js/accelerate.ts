/** Signatures that a judgement needs; the wasm module's class has exactly these members. */
export interface Pending {
  readonly length: number;
  /** An uncompressed point on P-384. */
  publicKey(index: number): Uint8Array | undefined;
  message(index: number): Uint8Array | undefined;
  /** r and s. */
  signature(index: number): Uint8Array | undefined;
  /** Consumes it. */
  vouch(accepted: Uint32Array): void;
  free(): void;
}

/** The part of WebCrypto that is used. */
export type Subtle = Pick<SubtleCrypto, "importKey" | "verify">;

/**
 * Computes the pending signatures with WebCrypto, all at once, and gives those that are right. Whatever WebCrypto
 * refuses, cannot do or does not know is left to the module, which computes it itself: the report is the same either way.
 *
 * Security: an answer counts for one triple of key, message and signature that the module named, and for nothing else.
 * A WebCrypto that lies was replaced by script of this very page, which is trusted with loading the module anyway.
 */
export async function accepted(pending: Pending, subtle: Subtle | undefined): Promise<Uint32Array> {
  if (!subtle) return new Uint32Array(0);
  const verdicts = await Promise.all(
    Array.from({ length: pending.length }, (_, index) => verify(pending, index, subtle)),
  );
  return Uint32Array.from(verdicts.flatMap((right, index) => (right ? [index] : [])));
}

async function verify(pending: Pending, index: number, subtle: Subtle): Promise<boolean> {
  const [key, message, signature] = [
    pending.publicKey(index),
    pending.message(index),
    pending.signature(index),
  ];
  if (!key || !message || !signature) return false;
  try {
    const imported = await subtle.importKey("raw", copy(key), { name: "ECDSA", namedCurve: "P-384" }, false, [
      "verify",
    ]);
    // Nothing but `true` is a yes.
    const answer: unknown = await subtle.verify(
      { name: "ECDSA", hash: "SHA-384" },
      imported,
      copy(signature),
      copy(message),
    );
    return answer === true;
  } catch {
    // This platform cannot: the module computes it.
    return false;
  }
}

/** WebCrypto takes no view of memory that might be shared. */
function copy(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}
