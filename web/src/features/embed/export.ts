import type { ReceiptReport } from "@clearseal/verifier";
import type { Sliced } from "../../ui/slices";

export interface Row {
  readonly text: string;
  readonly vector: Float32Array;
  readonly tokens: number | null;
  readonly truncated: boolean | null;
}

/** Rows per part of a file. Each finished part leaves JavaScript's heap. */
const ROWS_PER_PART = 256;

/** Receives the number of rows written so far. */
type OnProgress = (rows: number) => void;

/** NumPy's format 1.0: float32, little-endian, C order, shape (items, dimension). */
export function* toNpy(rows: readonly Row[], onProgress: OnProgress = () => {}): Sliced<Blob> {
  const width = rows[0]?.vector.length ?? 0;
  const shape = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows.length}, ${width}), }`;
  // Magic, version and header together are a multiple of 64 bytes, so that the data can be memory-mapped.
  const header = shape.padEnd(Math.ceil((10 + shape.length + 1) / 64) * 64 - 11, " ").concat("\n");
  const head = new Uint8Array(10 + header.length);
  head.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0]);
  new DataView(head.buffer).setUint16(8, header.length, true);
  head.set(new TextEncoder().encode(header), 10);
  const parts: BlobPart[] = [head];
  for (let at = 0; at < rows.length; at += ROWS_PER_PART) {
    const some = rows.slice(at, at + ROWS_PER_PART);
    const bytes = new DataView(new ArrayBuffer(some.length * width * 4));
    for (const [row, { vector }] of some.entries()) {
      for (let column = 0; column < width; column += 1)
        bytes.setFloat32((row * width + column) * 4, vector[column] ?? Number.NaN, true);
    }
    parts.push(new Blob([bytes]));
    onProgress(at + some.length);
    yield;
  }
  return new Blob(parts, { type: "application/octet-stream" });
}

/** RFC 4180, one item per record: text, tokens, truncated, then one column per dimension. */
export function* toCsv(rows: readonly Row[], onProgress: OnProgress = () => {}): Sliced<Blob> {
  const width = rows[0]?.vector.length ?? 0;
  const header = ["text", "tokens", "truncated", ...Array.from({ length: width }, (_, at) => `v${at}`)];
  const line = ({ text, tokens, truncated, vector }: Row) =>
    `${[quoted(text), tokens ?? "", truncated ?? "", ...Array.from(vector, shortest)].join(",")}\r\n`;
  const parts = yield* inParts(rows, line, onProgress);
  return new Blob([`${header.join(",")}\r\n`, ...parts], { type: "text/csv" });
}

/** Texts, vectors, and the claims of their receipts. */
export function* toJson(
  model: string,
  rows: readonly Row[],
  receipts: readonly ReceiptReport[],
  onProgress: OnProgress = () => {},
): Sliced<Blob> {
  const item = ({ text, tokens, truncated, vector }: Row, index: number) => {
    const fields = JSON.stringify({ index, text, tokens, truncated }).slice(0, -1);
    return `${index > 0 ? "," : ""}${fields},"embedding":[${Array.from(vector, shortest).join(",")}]}`;
  };
  const parts = yield* inParts(rows, item, onProgress);
  const dimension = rows[0]?.vector.length ?? 0;
  const claims = JSON.stringify(receipts.map(({ claims }) => claims));
  return new Blob(
    [
      `{"model":${JSON.stringify(model)},"dimension":${dimension},"data":[`,
      ...parts,
      `],"receipts":${claims}}`,
    ],
    { type: "application/json" },
  );
}

function* inParts(
  rows: readonly Row[],
  write: (row: Row, index: number) => string,
  onProgress: OnProgress,
): Sliced<Blob[]> {
  const parts: Blob[] = [];
  let part: string[] = [];
  for (const [index, row] of rows.entries()) {
    part.push(write(row, index));
    if (part.length === ROWS_PER_PART || index === rows.length - 1) {
      parts.push(new Blob(part));
      part = [];
      onProgress(index + 1);
    }
    if (index % ROWS_PER_STEP === 0) yield;
  }
  return parts;
}

/** Rows between two points at which the work may be interrupted: about one millisecond. */
const ROWS_PER_STEP = 4;

/** The shortest decimal that parses to the same float32; integers unchanged. */
export function shortest(value: number): string {
  if (Number.isInteger(value)) return String(value);
  for (let digits = 6; digits < 9; digits += 1) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(value)) return String(Number(text));
  }
  return String(Number(value.toPrecision(9)));
}

function quoted(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}
