/** Initial state (RFC 7693 §2.6). */
const IV = [
  0x6a09e667f3bcc908n,
  0xbb67ae8584caa73bn,
  0x3c6ef372fe94f82bn,
  0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n,
  0x9b05688c2b3e6c1fn,
  0x1f83d9abfb41bd6bn,
  0x5be0cd19137e2179n,
] as const;

/** Order of the message's words in each round (RFC 7693 §2.7), one hexadecimal digit a word. */
const SIGMA = [
  "0123456789abcdef",
  "ea489fd61c02b753",
  "b8c052fdae367194",
  "7931dcbe265a40f8",
  "905724afe1bc683d",
  "2c6a0b834d75fe19",
  "c51fed4a0763928b",
  "db7ec13950f4862a",
  "6fe9b308c2d714a5",
  "a2847615fb9e3cd0",
].map((row) => [...row].map((digit) => Number.parseInt(digit, 16)));

/** Columns and diagonals of the state (RFC 7693 §3.2). */
const LANES = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
] as const;

const ROUNDS = 12;
const BLOCK = 128;

/** BLAKE2b-512 without a key (RFC 7693), which WebCrypto does not have. For messages of at most a megabyte: it takes a second for one. */
export function hashBlake2b(message: Uint8Array): Uint8Array<ArrayBuffer> {
  const state = BigUint64Array.from(IV);
  // Parameter block: 64 bytes of digest, no key, sequential (§2.5).
  state[0] = word(state, 0) ^ 0x01010040n;
  const blocks = Math.max(1, Math.ceil(message.length / BLOCK));
  for (let at = 0; at < blocks; at += 1) {
    const block = new Uint8Array(BLOCK);
    block.set(message.subarray(at * BLOCK, (at + 1) * BLOCK));
    const isLast = at === blocks - 1;
    compress(state, block, BigInt(isLast ? message.length : (at + 1) * BLOCK), isLast);
  }
  const digest = new Uint8Array(64);
  const view = new DataView(digest.buffer);
  for (const [index, value] of state.entries()) view.setBigUint64(index * 8, value, true);
  return digest;
}

/** The function F (RFC 7693 §3.2). Words of a `BigUint64Array` are reduced modulo 2^64 when they are stored. */
function compress(state: BigUint64Array, block: Uint8Array, length: bigint, isLast: boolean): void {
  const view = new DataView(block.buffer);
  const words = BigUint64Array.from({ length: 16 }, (_, index) => view.getBigUint64(index * 8, true));
  const local = BigUint64Array.from([...state, ...IV]);
  local[12] = word(local, 12) ^ length;
  if (isLast) local[14] = ~word(local, 14);
  for (let round = 0; round < ROUNDS; round += 1) {
    const order = SIGMA[round % SIGMA.length] ?? [];
    for (const [index, lane] of LANES.entries()) {
      mix(local, lane, word(words, order[2 * index]), word(words, order[2 * index + 1]));
    }
  }
  for (let index = 0; index < state.length; index += 1) {
    state[index] = word(state, index) ^ word(local, index) ^ word(local, index + 8);
  }
}

/** The function G (RFC 7693 §3.1). */
function mix(
  local: BigUint64Array,
  [a, b, c, d]: (typeof LANES)[number],
  first: bigint,
  second: bigint,
): void {
  local[a] = word(local, a) + word(local, b) + first;
  local[d] = rotate(word(local, d) ^ word(local, a), 32n);
  local[c] = word(local, c) + word(local, d);
  local[b] = rotate(word(local, b) ^ word(local, c), 24n);
  local[a] = word(local, a) + word(local, b) + second;
  local[d] = rotate(word(local, d) ^ word(local, a), 16n);
  local[c] = word(local, c) + word(local, d);
  local[b] = rotate(word(local, b) ^ word(local, c), 63n);
}

function rotate(value: bigint, by: bigint): bigint {
  return (value >> by) | (value << (64n - by));
}

function word(words: BigUint64Array, index: number | undefined): bigint {
  return words[index ?? 0] ?? 0n;
}
