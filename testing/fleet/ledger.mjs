/** Checks that every acknowledged receipt has its one place in a log (docs/PROTOCOL.md, section 6). */

import { createHash } from "node:crypto";

const sha256 = (...parts) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** The root of the tree in which `receipt` is leaf `index` of `size` (RFC 9162 §2.1.3.2). */
export function rootOf(receipt, index, size, path) {
  let [fn, sn] = [index, size - 1];
  let root = sha256(Buffer.from([0]), receipt);
  for (const sibling of path) {
    if (sn === 0) return null;
    if (fn % 2 === 1 || fn === sn) {
      root = sha256(Buffer.from([1]), sibling, root);
      while (fn % 2 === 0 && fn !== 0) {
        fn = Math.floor(fn / 2);
        sn = Math.floor(sn / 2);
      }
    } else root = sha256(Buffer.from([1]), root, sibling);
    fn = Math.floor(fn / 2);
    sn = Math.floor(sn / 2);
  }
  return sn === 0 ? root : null;
}

/** Size and root from a head's payload: {1: log, 2: size, 3: root, …}. `host-proxy log check` verifies its signature. */
export function readHead(head, log) {
  const start = head.indexOf(Buffer.concat([Buffer.from([0x01, 0x58, 0x20]), log]));
  if (start < 0) return null;
  let at = start + 35;
  if (head[at] !== 0x02) return null;
  at += 1;
  const kind = head[at];
  const lengths = { 24: 1, 25: 2, 26: 4, 27: 8 };
  let size = kind;
  at += 1;
  if (kind > 23) {
    const bytes = lengths[kind];
    size = bytes === 8 ? Number(head.readBigUInt64BE(at)) : head.readUIntBE(at, bytes);
    at += bytes;
  }
  if (head[at] !== 0x03) return null;
  return { size, root: head.subarray(at + 3, at + 35) };
}

/** Receipts of acknowledged answers. */
export class Ledger {
  /** Hashes of receipts, by the manifest that contains their log's name. */
  #receipts = new Map();
  count = 0;
  /** Bundles, some of which the command line verifies. */
  samples = [];

  /** @param {string} bundle JSON */
  add(bundle) {
    const { receipt, manifest } = JSON.parse(bundle);
    const hash = sha256(Buffer.from(receipt, "base64url")).toString("hex");
    const receipts = this.#receipts.get(manifest) ?? new Set();
    if (receipts.has(hash)) throw new Error("one receipt for two answers");
    receipts.add(hash);
    this.#receipts.set(manifest, receipts);
    if (this.count % 50 === 0) this.samples.push(bundle);
    this.count += 1;
  }

  /**
   * Requests the place of every receipt from `url`. `logs`: names of all logs. `killed`: names of logs whose enclave was killed,
   * so that their last leaves may never have reached the host. Returns the number of receipts that are in a log, those that are
   * in none (by log name, and separately for killed enclaves), and invalid proofs.
   */
  async settle(url, logs, killed = new Set()) {
    const outcome = { logged: 0, lostInKills: new Map(), lost: new Map(), wrong: [] };
    const names = [...new Set([...logs, ...killed])].map((log) => Buffer.from(log, "hex"));
    for (const [manifest, receipts] of this.#receipts) {
      const bytes = Buffer.from(manifest, "base64url");
      const log = names.find((name) => bytes.includes(name));
      if (!log) {
        outcome.lost.set("of no known log", (outcome.lost.get("of no known log") ?? 0) + receipts.size);
        continue;
      }
      const missing = killed.has(log.toString("hex")) ? outcome.lostInKills : outcome.lost;
      const places = new Set();
      for (const receipt of receipts) await this.#place(url, log, receipt, { places, outcome, missing });
    }
    return outcome;
  }

  async #place(url, log, receipt, { places, outcome, missing }) {
    const name = log.toString("hex");
    const answer = await fetch(`${url}/v1/log/${name}/inclusion?receipt=${receipt}`);
    if (answer.status === 404) {
      await answer.arrayBuffer();
      missing.set(name, (missing.get(name) ?? 0) + 1);
      return;
    }
    if (!answer.ok) throw new Error(`the log answers with ${answer.status}`);
    const { index, path, head } = await answer.json();
    const read = readHead(Buffer.from(head, "base64url"), log);
    const siblings = path.map((hash) => Buffer.from(hash, "hex"));
    const root = read && rootOf(Buffer.from(receipt, "hex"), index, read.size, siblings);
    if (!root?.equals(read.root) || places.has(index)) outcome.wrong.push({ log: name, receipt, index });
    else outcome.logged += 1;
    places.add(index);
  }
}

/** Number of receipts missing in all logs together. */
export const total = (missing) => [...missing.values()].reduce((sum, count) => sum + count, 0);
