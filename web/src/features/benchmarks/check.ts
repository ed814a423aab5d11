import { type Json, type JsonObject, member, shortened } from "./json";
import { FILE_SCHEMA, SCHEMAS, SUBJECTS, UNITS, type Unit } from "./record.gen";

/** One thing that is wrong with a file. */
export interface Problem {
  /** Which rule; stable. */
  readonly code: string;
  /** Where: `$.records[3].stages.attestation_ms`. */
  readonly path: string;
  /** What is wrong there, and what would be right. */
  readonly reason: string;
}

export interface Findings {
  readonly problems: Problem[];
  /** Fields that nobody here knows; they are not read. */
  readonly notices: Problem[];
}

/** Most faults that are reported of one file; more help nobody. */
export const MAX_PROBLEMS = 20;

/** Follows the schema that `benchmarks/src/record.rs` generates, by the rules of `benchmarks/src/schema.rs`. */
export function check(
  value: Json,
  definition: "Record" | "RecordFile",
  path: string,
  into: Findings = { problems: [], notices: [] },
): Findings {
  new Judge(into).value((definition === "Record" ? SCHEMAS.Record : FILE_SCHEMA) as Schema, value, path);
  return into;
}

interface Schema {
  readonly $ref?: string;
  readonly oneOf?: readonly { readonly const: string }[];
  readonly anyOf?: readonly Schema[];
  readonly type?: string;
  readonly minimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly pattern?: string;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly "x-ordered"?: readonly string[];
}

class Judge {
  readonly #found: Findings;

  constructor(found: Findings) {
    this.#found = found;
  }

  value(schema: Schema, value: Json, path: string): void {
    if (this.#found.problems.length >= MAX_PROBLEMS) return;
    if (schema.$ref)
      return void this.value(SCHEMAS[schema.$ref.slice("#/$defs/".length)] as Schema, value, path);
    if (schema.oneOf) return void this.#oneOf(schema.oneOf, value, path);
    if (schema.anyOf) {
      const fitting = schema.anyOf.find(({ type = "" }) => is(value, type));
      if (fitting) return void this.value(fitting, value, path);
      const names = schema.anyOf.map(({ type = "value" }) => article(type)).join(" or ");
      return void this.#add("RECORD_TYPE", path, `${names} is expected here, not ${shown(value)}`);
    }
    if (schema.type && !is(value, schema.type)) {
      return void this.#add(
        "RECORD_TYPE",
        path,
        `${article(schema.type)} is expected here, not ${shown(value)}`,
      );
    }
    if (typeof value === "string") return void this.#text(schema, value, path);
    if (typeof value === "number") {
      if (schema.minimum !== undefined && value < schema.minimum)
        this.#add("RECORD_VALUE", path, `${value} is less than ${schema.minimum}`);
    } else if (isList(value)) this.#list(schema, value, path);
    else if (isObject(value)) this.#object(schema, value, path);
  }

  #oneOf(choices: readonly { readonly const: string }[], value: Json, path: string): void {
    if (typeof value !== "string")
      return void this.#add("RECORD_TYPE", path, `a string is expected here, not ${shown(value)}`);
    if (choices.some((choice) => choice.const === value)) return;
    const names = choices.map((choice) => choice.const).join(", ");
    this.#add("RECORD_VALUE", path, `\`${shortened(value)}\` is none of ${names}`);
  }

  #text(schema: Schema, text: string, path: string): void {
    const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern } = schema;
    const length = text.length;
    if (length > maxLength)
      return void this.#add("RECORD_LENGTH", path, `${length} characters, at most ${maxLength} are allowed`);
    if (length < minLength)
      return void this.#add("RECORD_LENGTH", path, `${length} characters, at least ${minLength} are needed`);
    if (pattern && !compiled(pattern).test(text))
      this.#add("RECORD_VALUE", path, `\`${shortened(text)}\` is not of the form ${pattern}`);
  }

  #list(schema: Schema, items: readonly Json[], path: string): void {
    const { minItems: least, maxItems: most } = schema;
    const length = items.length;
    if ((most !== undefined && length > most) || (least !== undefined && length < least)) {
      const exactly = least === most ? `exactly ${most}` : undefined;
      const allowed =
        exactly ?? (most !== undefined && length > most ? `at most ${most}` : `at least ${least}`);
      return void this.#add("RECORD_LENGTH", path, `${length} entries, ${allowed} are allowed`);
    }
    for (const [index, item] of items.entries()) this.value(schema.items ?? {}, item, `${path}[${index}]`);
  }

  #object(schema: Schema, object: JsonObject, path: string): void {
    const { properties = {}, additionalProperties: others, required = [] } = schema;
    const names = Object.keys(object);
    for (const name of names) {
      const here = member(path, name);
      const value = object[name] as Json;
      if (Object.hasOwn(properties, name)) this.value(properties[name] as Schema, value, here);
      else if (typeof others === "object") this.value(others, value, here);
      else if (others === false) {
        const known = Object.keys(properties).join(", ");
        this.#add("RECORD_UNKNOWN_FIELD", here, `there is no such field; the fields here are ${known}`);
      } else if (this.#found.notices.length < MAX_PROBLEMS) {
        const reason = "this field is not known and was not read";
        this.#found.notices.push({ code: "RECORD_UNKNOWN_FIELD", path: here, reason });
      }
    }
    for (const name of required)
      if (!(name in object)) this.#add("RECORD_MISSING_FIELD", member(path, name), "this field is required");
    if (schema.maxProperties !== undefined && names.length > schema.maxProperties)
      this.#add(
        "RECORD_LENGTH",
        path,
        `${names.length} entries, at most ${schema.maxProperties} are allowed`,
      );
    if (schema["x-ordered"]) this.#ordered(schema["x-ordered"], object, path);
    if ("subject" in properties && "unit" in properties) this.#unit(object, path);
  }

  #ordered(names: readonly string[], object: JsonObject, path: string): void {
    let last: { name: string; value: number } | undefined;
    for (const name of names) {
      const value = object[name];
      if (typeof value !== "number") continue;
      if (last && value < last.value) {
        const reason = `${value} is less than ${last.name}, which is ${last.value}`;
        this.#add("RECORD_ORDER", member(path, name), reason);
      }
      last = { name, value };
    }
  }

  #unit(object: JsonObject, path: string): void {
    const { subject, unit } = object;
    if (typeof subject !== "string") return;
    const here = member(path, "unit");
    if (unit === undefined) {
      if ("statistics" in object) this.#add("RECORD_UNIT", here, "numbers need a unit");
      return;
    }
    const known = SUBJECTS.find(({ name }) => name === subject);
    if (!known || known.dimension === "any" || typeof unit !== "string" || !Object.hasOwn(UNITS, unit))
      return;
    const { dimension } = UNITS[unit as Unit];
    if (dimension === known.dimension) return;
    const reason = `\`${unit}\` is a unit of ${dimension}, but ${subject} is measured in one of ${known.dimension}`;
    this.#add("RECORD_UNIT", here, reason);
  }

  #add(code: string, path: string, reason: string): void {
    if (this.#found.problems.length < MAX_PROBLEMS) this.#found.problems.push({ code, path, reason });
  }
}

const patterns = new Map<string, RegExp>();

function compiled(pattern: string): RegExp {
  const known = patterns.get(pattern) ?? new RegExp(pattern, "u");
  patterns.set(pattern, known);
  return known;
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function kind(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

function is(value: Json, type: string): boolean {
  return type === "integer" ? Number.isInteger(value) : kind(value) === type;
}

function shown(value: Json): string {
  if (typeof value === "string") return `the string \`${shortened(value)}\``;
  return typeof value === "object" && value !== null ? article(kind(value)) : String(value);
}

function article(type: string): string {
  if (type === "integer") return "a whole number";
  return type === "object" || type === "array" ? `an ${type}` : `a ${type}`;
}
