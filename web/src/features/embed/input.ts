import { atOnce, type Sliced } from "../../ui/slices";

/** The texts to embed: lines typed into the box, then the records of each file, in that order. */
export interface Input {
  readonly text: string;
  readonly files: readonly DroppedFile[];
}

export interface DroppedFile {
  /** Unique in this tab. */
  readonly id: number;
  readonly name: string;
  readonly table: Table;
  /** Column that contains the text, from 0. */
  readonly column: number;
  /** Number of unreadable lines that the user chose to skip. */
  readonly skipped?: number;
}

/** Records of a file. A .txt file has one column without a name. */
export interface Table {
  readonly columns: readonly string[];
  readonly records: readonly (readonly string[])[];
}

export type Parsed =
  | { readonly status: "read"; readonly table: Table; readonly column: number }
  | {
      readonly status: "refused";
      readonly why: string;
      readonly remedy: string;
      /** The readable records, if there are any. */
      readonly rest?: Rest;
    };

/** The readable records of a file, for a user who skips the others. */
export interface Rest {
  readonly table: Table;
  readonly column: number;
  /** Skipped lines, from 1. */
  readonly skipped: readonly number[];
}

export const NO_INPUT: Input = { text: "", files: [] };

/** Larger files are rejected before they are read into memory. */
export const MAX_FILE_BYTES = 16 * 1024 * 1024;

/** All vectors stay in memory, 1.5 KB each. For more, the command line streams to a file. */
export const MAX_ITEMS = 100_000;

/** Larger pasted text becomes a file: a text box is unusable with it. */
export const MAX_TYPED_CHARACTERS = 200_000;

const TEXT_COLUMNS = ["text", "content", "body", "sentence", "input", "message", "document", "title"];

/** All items in order, without blank ones. */
export function itemsOf({ text, files }: Input): string[] {
  const items = linesOf(text);
  for (const { table, column } of files) {
    for (const record of table.records) {
      const value = record[column];
      if (value?.trim()) items.push(value);
    }
  }
  return items;
}

/** Parses a file according to its extension; `content` is its text. */
export function parseFile(name: string, content: string): Parsed {
  return atOnce(parseFileSliced(name, content));
}

/** [`parseFile`] in slices, for files that would block the page. */
export function* parseFileSliced(name: string, content: string): Sliced<Parsed> {
  const text = content.startsWith("\uFEFF") ? content.slice(1) : content;
  if (text.includes("\0")) {
    return refuse("It contains binary data, not text.", "Save it as UTF-8 text and drop it again.");
  }
  switch (extension(name)) {
    case "txt":
    case "text":
    case "md": {
      const records: string[][] = [];
      for (const line of splitLazily(text, LINE_END)) {
        if (line.trim() !== "") records.push([line]);
        if (records.length % LINES_PER_STEP === 0) yield;
      }
      return table([""], records);
    }
    case "csv":
      return yield* parseCsv(text, ",");
    case "tsv":
      return yield* parseCsv(text, "\t");
    case "jsonl":
    case "ndjson":
      return yield* parseJsonl(text);
    default:
      return refuse(
        "Its name does not end in .txt, .csv or .jsonl.",
        "Rename it if it is one of these, or paste its text.",
      );
  }
}

const LINE_END = /\r\n|\n|\r/g;
const JSON_LINE_END = /\r\n|\n/g;

/** Input read between two points at which the work may be interrupted: about one millisecond. */
const LINES_PER_STEP = 500;
const CHARACTERS_PER_STEP = 16_384;

/** Yields the parts between matches, one at a time. */
function* splitLazily(text: string, between: RegExp): Generator<string> {
  let start = 0;
  for (const { 0: match, index } of text.matchAll(between)) {
    yield text.slice(start, index);
    start = index + match.length;
  }
  yield text.slice(start);
}

function linesOf(text: string): string[] {
  return text.split(/\r\n|\n|\r/).filter((line) => line.trim() !== "");
}

function extension(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1).toLowerCase();
}

function table(columns: readonly string[], records: readonly (readonly string[])[]): Parsed {
  if (records.length === 0) return refuse("It contains no records.", "Drop a file with at least one record.");
  if (records.length > MAX_ITEMS) {
    return refuse(
      `It contains ${records.length.toLocaleString("en")} records; this page takes at most ${MAX_ITEMS.toLocaleString("en")}.`,
      "Split it, or use the command `clearseal embed`, which streams.",
    );
  }
  return { status: "read", table: { columns, records }, column: textColumn(columns, records) };
}

/** The column that is named like text, otherwise the one with the longest values. */
function textColumn(columns: readonly string[], records: readonly (readonly string[])[]): number {
  const lower = columns.map((column) => column.trim().toLowerCase());
  for (const name of TEXT_COLUMNS) {
    const found = lower.indexOf(name);
    if (found >= 0) return found;
  }
  const sample = records.slice(0, 50);
  const lengths = columns.map((_, column) =>
    sample.reduce((sum, record) => sum + (record[column]?.length ?? 0), 0),
  );
  return Math.max(0, lengths.indexOf(Math.max(...lengths)));
}

/** RFC 4180: quoted fields may contain separators, line breaks and doubled quotes. The first record names the columns. */
function* parseCsv(text: string, separator: string): Sliced<Parsed> {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let quoted = false;
  let line = 1;
  let opened = 0;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (at % CHARACTERS_PER_STEP === 0) yield;
    if (char === "\n") line += 1;
    if (quoted) {
      if (char !== '"') field += char;
      else if (text[at + 1] === '"') {
        field += '"';
        at += 1;
      } else quoted = false;
    } else if (char === '"' && field === "") {
      quoted = true;
      opened = line;
    } else if (char === separator) {
      row.push(field);
      field = "";
    } else if (char === "\n" || char === "\r") {
      if (char === "\r" && text[at + 1] === "\n") continue;
      row.push(field);
      field = "";
      if (row.some((value) => value !== "")) rows.push(row);
      row = [];
    } else field += char;
  }
  if (quoted)
    return refuse(`A quote that opens on line ${opened} never closes.`, "Close it, and drop the file again.");
  row.push(field);
  if (row.some((value) => value !== "")) rows.push(row);

  const [header, ...records] = rows;
  if (!header) return refuse("It is empty.", "Drop a file with at least one record.");
  if (header.length === 1 && !TEXT_COLUMNS.includes(header[0]?.trim().toLowerCase() ?? "")) {
    // One column without a known name in its first cell is a plain list.
    return table([""], rows);
  }
  return table(header, records);
}

/** Each line is a string, or an object with string fields. Reports all other lines, which the user can skip. */
function* parseJsonl(text: string): Sliced<Parsed> {
  const columns: string[] = [];
  const places = new Map<string, number>();
  const records: string[][] = [];
  const skipped: number[] = [];
  let first = "";
  let index = -1;
  for (const line of splitLazily(text, JSON_LINE_END)) {
    index += 1;
    if (index % LINES_PER_STEP === 0) yield;
    if (line.trim() === "") continue;
    const fields = fieldsOfLine(line);
    if (typeof fields === "string") {
      first ||= `Line ${index + 1} ${fields}.`;
      skipped.push(index + 1);
      continue;
    }
    const record: string[] = [];
    for (const [key, field] of fields) {
      let place = places.get(key);
      if (place === undefined) {
        place = columns.push(key) - 1;
        places.set(key, place);
      }
      record[place] = field;
    }
    records.push(Array.from(record, (field) => field ?? ""));
  }
  const parsed = table(columns, records);
  if (skipped.length === 0) return parsed;
  const more = skipped.length - 1;
  const why = more === 0 ? first : `${first} ${more.toLocaleString("en")} more cannot be read either.`;
  const remedy = "Each line must be one JSON string, or one object with a string in it.";
  if (parsed.status === "refused") return refuse(why, remedy);
  return { ...refuse(why, remedy), rest: { table: parsed.table, column: parsed.column, skipped } };
}

/** Returns the text fields of a line, or the reason why it has none. */
function fieldsOfLine(line: string): [string, string][] | string {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return "is not JSON";
  }
  const fields = fieldsOf(value);
  return fields.length > 0 ? fields : "contains no text";
}

function fieldsOf(value: unknown): [string, string][] {
  if (typeof value === "string") return [["", value]];
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  return Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string");
}

function refuse(why: string, remedy: string): Extract<Parsed, { status: "refused" }> {
  return { status: "refused", why, remedy };
}
