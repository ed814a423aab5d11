/** A JSON value. Duplicate names are reported, because `JSON.parse` would silently drop the first. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

/** Has no prototype, so that a field named `__proto__` is an ordinary field. */
export interface JsonObject {
  readonly [name: string]: Json;
}

export interface Parsed {
  readonly value: Json;
  /** Paths of names that occur more than once in an object. */
  readonly duplicates: readonly string[];
}

/** Maximum nesting. Records need eight levels. */
export const MAX_DEPTH = 32;

export class JsonError extends Error {
  readonly code: "RECORD_NOT_JSON" | "RECORD_TOO_DEEP";

  constructor(code: JsonError["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/** Parses exactly RFC 8259. Throws a {@link JsonError} with the location. */
export function parse(text: string): Parsed {
  const reader = new Reader(text);
  return { value: reader.file(), duplicates: reader.duplicates };
}

/** `$.a.b`, or `$.a["strange name"]`. */
export function member(path: string, name: string): string {
  return /^[A-Za-z0-9_]+$/.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(shortened(name))}]`;
}

/** The first forty characters. */
export function shortened(text: string): string {
  const letters = [...text.slice(0, 100)];
  return letters.length > 40 || text.length > 100 ? `${letters.slice(0, 40).join("")}…` : text;
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: RFC 8259 §7 forbids exactly these in strings
const STRING = /"((?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"/y;
const SPACE = /[ \t\n\r]*/y;
const WORDS: readonly (readonly [string, Json])[] = [
  ["true", true],
  ["false", false],
  ["null", null],
];

class Reader {
  readonly duplicates: string[] = [];
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  file(): Json {
    const value = this.#value("$", 0);
    this.#space();
    if (this.#at < this.#text.length) this.#fail("there is text after the end of the value");
    return value;
  }

  #value(path: string, depth: number): Json {
    this.#space();
    const first = this.#text[this.#at];
    if (depth >= MAX_DEPTH && (first === "{" || first === "["))
      throw new JsonError("RECORD_TOO_DEEP", `nested more than ${MAX_DEPTH} levels deep`);
    if (first === undefined) this.#fail("it ends before it is complete");
    if (first === "{") return this.#object(path, depth);
    if (first === "[") return this.#list(path, depth);
    if (first === '"') return this.#string();
    for (const [word, value] of WORDS) {
      if (this.#text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return value;
      }
    }
    const number = this.#match(NUMBER);
    if (number === null) this.#fail("a value is expected");
    const value = Number(number);
    if (!Number.isFinite(value)) this.#fail("the number is out of range");
    return value;
  }

  #object(path: string, depth: number): JsonObject {
    const object: Record<string, Json> = Object.create(null);
    this.#at += 1;
    if (this.#takes("}")) return object;
    do {
      this.#space();
      if (this.#text[this.#at] !== '"') this.#fail("the name of a field is expected");
      const name = this.#string();
      const here = member(path, name);
      if (!this.#takes(":")) this.#fail("a colon is expected");
      const value = this.#value(here, depth + 1);
      if (name in object) this.duplicates.push(here);
      else object[name] = value;
    } while (this.#takes(","));
    if (!this.#takes("}")) this.#fail("a comma or a closing brace is expected");
    return object;
  }

  #list(path: string, depth: number): Json[] {
    const items: Json[] = [];
    this.#at += 1;
    if (this.#takes("]")) return items;
    do {
      items.push(this.#value(`${path}[${items.length}]`, depth + 1));
    } while (this.#takes(","));
    if (!this.#takes("]")) this.#fail("a comma or a closing bracket is expected");
    return items;
  }

  #string(): string {
    const quoted = this.#match(STRING);
    if (quoted === null) this.#fail("the string is not closed, or contains a forbidden character");
    return quoted.includes("\\") ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
  }

  #takes(sign: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== sign) return false;
    this.#at += 1;
    return true;
  }

  #space(): void {
    this.#match(SPACE);
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (!found) return null;
    this.#at = pattern.lastIndex;
    return found[0];
  }

  #fail(what: string): never {
    const before = this.#text.slice(0, this.#at);
    const line = before.split("\n").length;
    const column = this.#at - before.lastIndexOf("\n");
    throw new JsonError("RECORD_NOT_JSON", `this is not JSON: ${what}, at line ${line} column ${column}`);
  }
}
