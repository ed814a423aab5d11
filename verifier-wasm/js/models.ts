import type { ServedModel } from "./types.js";

/**
 * The models of a service manifest, in its order. `evidence` is `application/cbor`, a map whose entry 2 is the manifest. Reads what
 * the module has verified, and does not verify it again: pass only the evidence of a session.
 */
export function modelsOf(evidence: Uint8Array): ServedModel[] {
  const manifest = entries(new Reader(evidence).read()).get(2);
  if (!(manifest instanceof Uint8Array)) throw new RangeError("the evidence has no manifest");
  const members = entries(new Reader(manifest).read());
  const others = members.get(9);
  return [members.get(4), ...(Array.isArray(others) ? others : [])].map(modelOf);
}

/** Whether two names are of one model: they are equal, or only one has an organisation (`org/name`). */
export function isSameModel(a: string, b: string): boolean {
  const extendsName = (long: string, short: string) => !short.includes("/") && long.endsWith(`/${short}`);
  return a === b || extendsName(a, b) || extendsName(b, a);
}

/**
 * The policy with `model` in place of the model that it demands. A policy that demands none stays as it is: it accepts no service.
 * So does one that is not JSON, which the module refuses.
 */
export function demandModel(policy: string, { id, sha256 }: ServedModel): string {
  try {
    const parsed: unknown = JSON.parse(policy.replace(/^\uFEFF/, ""));
    if (typeof parsed !== "object" || parsed === null || !("model" in parsed)) return policy;
    return JSON.stringify({ ...parsed, model: { id, sha256 } });
  } catch {
    return policy;
  }
}

/** Keys of docs/PROTOCOL.md §1. */
function modelOf(value: unknown): ServedModel {
  const model = entries(value);
  const [id, version, sha256] = [model.get(1), model.get(2), model.get(3)];
  const [dimension, maxTokens] = [model.get(5), model.get(6)];
  if (
    typeof id !== "string" ||
    typeof version !== "string" ||
    !(sha256 instanceof Uint8Array) ||
    typeof dimension !== "number" ||
    typeof maxTokens !== "number"
  ) {
    throw new RangeError("the manifest describes a model in another form");
  }
  const hex = Array.from(sha256, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, version, sha256: hex, dimension, maxTokens, normalised: model.get(7) !== false };
}

function entries(value: unknown): Map<unknown, unknown> {
  if (!(value instanceof Map)) throw new RangeError("not a map");
  return value;
}

/** CBOR (RFC 8949 §3) with definite lengths and without floating-point numbers: the form of a manifest. */
class Reader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  read(): unknown {
    const initial = this.#view.getUint8(this.#at);
    this.#at += 1;
    const major = initial >> 5;
    if (major === 7) return SIMPLE.get(initial);
    const argument = this.#argument(initial & 0x1f);
    switch (major) {
      case 0:
        return argument;
      case 1:
        return -1 - argument;
      case 2:
        return this.#take(argument);
      case 3:
        return new TextDecoder().decode(this.#take(argument));
      case 4:
        return Array.from(this.#items(argument), () => this.read());
      case 5:
        return new Map(Array.from(this.#items(argument), () => [this.read(), this.read()]));
      default:
        throw new RangeError("a tag");
    }
  }

  #argument(info: number): number {
    if (info < 24) return info;
    const at = this.#at;
    this.#at += 2 ** (info - 24);
    switch (info) {
      case 24:
        return this.#view.getUint8(at);
      case 25:
        return this.#view.getUint16(at);
      case 26:
        return this.#view.getUint32(at);
      case 27:
        return Number(this.#view.getBigUint64(at));
      default:
        throw new RangeError("an indefinite length");
    }
  }

  #take(length: number): Uint8Array {
    const start = this.#at;
    this.#at += this.#bounded(length);
    return this.#bytes.subarray(start, this.#at);
  }

  #items(count: number): { readonly length: number } {
    return { length: this.#bounded(count) };
  }

  /** Each item has at least a byte. */
  #bounded(count: number): number {
    if (count > this.#bytes.length - this.#at) throw new RangeError("a length past the end");
    return count;
  }
}

const SIMPLE = new Map<number, unknown>([
  [0xf4, false],
  [0xf5, true],
  [0xf6, null],
]);
