import { contradictions, faults, MAX_PROBLEMS, type Problem, type Shape, unread } from "./check";
import { type Json, JsonError, type JsonObject, parse } from "./json";
import type { BenchmarkRecord, RecordFile } from "./record.gen";

/** Maximum size of a file in bytes. */
export const MAX_BYTES = 32 * 1024 * 1024;

const FORMAT = "clearseal.benchmarks/1";

export type Reading =
  | {
      readonly status: "read";
      /** Report and tables, if the file has them; its records are in `records`. */
      readonly file: Omit<RecordFile, "records"> | null;
      readonly records: readonly BenchmarkRecord[];
      readonly notices: readonly Problem[];
    }
  | Refused;

export interface Refused {
  readonly status: "refused";
  readonly problems: readonly Problem[];
  /** Whether nothing in the file is of a benchmark. */
  readonly foreign?: true;
}

/** Parses and validates a file. */
export function read(bytes: Uint8Array): Reading {
  if (bytes.length > MAX_BYTES) {
    const [size, most] = [bytes.length, MAX_BYTES].map((one) => Math.floor(one / 1024 / 1024));
    return reject("RECORD_TOO_LARGE", `the file has ${size} MiB, at most ${most} are read`);
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return reject("RECORD_NOT_JSON", "this is not JSON: it is not UTF-8 text");
  }
  try {
    const { value, duplicates } = parse(text);
    if (duplicates.length > 0) {
      const reason = "this name occurs twice";
      const problems = duplicates
        .slice(0, MAX_PROBLEMS)
        .map((path) => ({ code: "RECORD_DUPLICATE_KEY", path, reason }));
      return { status: "refused", problems };
    }
    return validate(value);
  } catch (error) {
    if (error instanceof JsonError) return reject(error.code, error.message);
    throw error;
  }
}

function validate(value: Json): Reading {
  const object = typeof value === "object" && value !== null ? (value as JsonObject) : {};
  const { format } = object;
  if (!Array.isArray(value) && format !== undefined && format !== FORMAT) {
    const named = typeof format === "string" ? `“${format.slice(0, 60)}”` : "not a string";
    return reject("RECORD_VALUE", `the file's format is ${named}; this page reads ${FORMAT}`, "$.format");
  }
  const shape: Shape = Array.isArray(value) ? "records" : "records" in object ? "file" : "record";
  const wrong = faults(value, shape);
  if (wrong.length > 0)
    return { status: "refused", problems: wrong, ...(isForeign(value) && { foreign: true }) };
  // The value now has the TypeScript types: they are generated from the schema that it passed.
  const { records: inFile, ...file } = object as unknown as RecordFile;
  const alone = shape === "records" ? value : [value];
  const records = shape === "file" ? inFile : (alone as unknown as readonly BenchmarkRecord[]);
  const place = (index: number) =>
    ({ file: `$.records[${index}]`, records: `$[${index}]`, record: "$" })[shape];
  const collect = (check: (record: BenchmarkRecord, at: string) => Iterable<Problem>) => {
    const found: Problem[] = [];
    for (const [index, record] of records.entries()) {
      for (const problem of check(record, place(index))) {
        found.push(problem);
        if (found.length === MAX_PROBLEMS) return found;
      }
    }
    return found;
  };
  const problems = collect(contradictions);
  if (problems.length > 0) return { status: "refused", problems };
  return { status: "read", file: shape === "file" ? file : null, records, notices: collect(unread) };
}

/** Fields of which every record has one. Others, such as a title, are also in files of other programs. */
const MARKS = ["environment", "stages", "inference", "memory", "vsock", "quality", "measurements"] as const;

/** Whether a file neither names our format nor contains a record. */
function isForeign(value: Json): boolean {
  const object = isObject(value) ? value : {};
  const records = Array.isArray(value) ? value : "records" in object ? object.records : [value];
  if (object.format === FORMAT) return false;
  return !(Array.isArray(records) && records.some(isMarked));
}

function isMarked(value: Json): boolean {
  return isObject(value) && MARKS.some((name) => name in value);
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function reject(code: string, reason: string, path = "$"): Reading {
  return { status: "refused", problems: [{ code, path, reason }] };
}
