import { type Check, type Fault, isFile, isRecord } from "virtual:record-check";
import { type Json, type JsonObject, member, shortened } from "./json";
import {
  type BenchmarkRecord,
  FIELDS,
  type Measurement,
  type Statistics,
  SUBJECTS,
  UNITS,
} from "./record.gen";

/** One error in a file. */
export interface Problem {
  /** Stable code of the violated rule. */
  readonly code: string;
  /** Location: `$.records[3].stages.attestation_ms`. */
  readonly path: string;
  /** Describes the error, and the expected value. */
  readonly reason: string;
}

/** Type of a file's content: a report with records, a list of records, or one record. */
export type Shape = "file" | "records" | "record";

/** Maximum number of problems reported per file. */
export const MAX_PROBLEMS = 20;

/** Violations of the schema: the first one of the file, or the first one of each record. */
export function faults(value: Json, shape: Shape): Problem[] {
  if (shape === "record") return first(isRecord, value, "$");
  if (shape === "records") return eachFirst(value as readonly Json[], "$");
  const found = first(isFile, value, "$");
  const records = (value as JsonObject).records;
  const inRecords = found[0]?.path.startsWith("$.records[") && isList(records);
  return inRecords ? eachFirst(records, "$.records") : found;
}

function eachFirst(records: readonly Json[], at: string): Problem[] {
  const found: Problem[] = [];
  for (const [index, record] of records.entries()) {
    found.push(...first(isRecord, record, `${at}[${index}]`));
    if (found.length >= MAX_PROBLEMS) break;
  }
  return found;
}

function first(check: Check, value: Json, at: string): Problem[] {
  if (check(value)) return [];
  const fault = check.errors?.at(-1);
  return fault ? [problem(fault, value, at)] : [];
}

function problem({ keyword, instancePath, params }: Fault, root: Json, at: string): Problem {
  let path = at;
  let value: Json | undefined = root;
  for (const step of instancePath.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    path = isList(value) ? `${path}[${name}]` : member(path, name);
    value = (value as JsonObject)[name];
  }
  const is = (code: string, reason: string, name?: unknown): Problem => ({
    code,
    path: name === undefined ? path : member(path, String(name)),
    reason,
  });
  const limit = String(params.limit);
  switch (keyword) {
    case "additionalProperties":
      return is("RECORD_UNKNOWN_FIELD", "this field does not exist", params.additionalProperty);
    case "required":
      return is("RECORD_MISSING_FIELD", "this field is required", params.missingProperty);
    case "type":
      return is("RECORD_TYPE", `${kinds(params.type)} is expected here, not ${shown(value)}`);
    case "enum":
      return is("RECORD_VALUE", `${shown(value)} is not one of ${[params.allowedValues].flat().join(", ")}`);
    case "pattern":
      return is("RECORD_VALUE", `${shown(value)} is not of the form ${String(params.pattern)}`);
    case "minimum":
      return is("RECORD_VALUE", `${shown(value)} is less than ${limit}`);
    case "maxLength":
      return is("RECORD_LENGTH", `at most ${limit} characters are allowed`);
    case "minLength":
      return is("RECORD_LENGTH", `at least ${limit} characters are needed`);
    case "maxItems":
    case "maxProperties":
      return is("RECORD_LENGTH", `at most ${limit} entries are allowed`);
    case "minItems":
      return is("RECORD_LENGTH", `at least ${limit} entries are needed`);
    default:
      return is("RECORD_VALUE", `the schema's rule “${keyword}” does not hold`);
  }
}

/** Rules that the schema cannot express, for a record at `at`: percentiles increase, and units fit their subject. */
export function* contradictions(record: BenchmarkRecord, at: string): Iterable<Problem> {
  yield* order(record.inference?.latency_ms, `${at}.inference.latency_ms`);
  for (const [index, measurement] of (record.measurements ?? []).entries()) {
    const here = `${at}.measurements[${index}]`;
    yield* order(measurement.statistics, `${here}.statistics`);
    yield* unit(measurement, `${here}.unit`);
  }
}

function order(statistics: Statistics | undefined, at: string): Problem[] {
  let before: { readonly name: string; readonly value: number } | undefined;
  for (const name of ["min", "p50", "p95", "p99", "max"] as const) {
    const value = statistics?.[name];
    if (value === undefined) continue;
    if (before && value < before.value) {
      const reason = `${value} is less than ${before.name}, which is ${before.value}`;
      return [{ code: "RECORD_ORDER", path: `${at}.${name}`, reason }];
    }
    before = { name, value };
  }
  return [];
}

function unit({ subject, unit, statistics = {} }: Measurement, path: string): Problem[] {
  if (unit === undefined) {
    const reason = "numbers need a unit";
    return Object.keys(statistics).length === 0 ? [] : [{ code: "RECORD_UNIT", path, reason }];
  }
  const known = SUBJECTS.find(({ name }) => name === subject);
  const { dimension } = UNITS[unit];
  if (!known || known.dimension === "any" || dimension === known.dimension) return [];
  const reason = `\`${unit}\` is a unit of ${dimension}, but ${subject} is measured in one of ${known.dimension}`;
  return [{ code: "RECORD_UNIT", path, reason }];
}

/** Unknown fields of a record, which are ignored. */
export function* unread(record: BenchmarkRecord, at: string): Iterable<Problem> {
  for (const [section, known] of Object.entries(FIELDS)) {
    const held: unknown = section === "" ? record : record[section as keyof BenchmarkRecord];
    const path = section === "" ? at : `${at}.${section}`;
    if (typeof held !== "object" || held === null) continue;
    for (const name in held) {
      if (known.includes(name)) continue;
      const reason = "this field is unknown and was ignored";
      yield { code: "RECORD_UNKNOWN_FIELD", path: member(path, name), reason };
    }
  }
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

function shown(value: Json | undefined): string {
  if (typeof value === "string") return `the string \`${shortened(value)}\``;
  if (isList(value)) return "a list";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}

const KINDS: Readonly<Record<string, string>> = {
  array: "a list",
  boolean: "true or false",
  integer: "a whole number",
  number: "a number",
  object: "an object",
  string: "a string",
};

function kinds(types: unknown): string {
  return String(types)
    .split(",")
    .map((type) => KINDS[type] ?? type)
    .join(" or ");
}
