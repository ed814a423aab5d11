import type { ReceiptReport } from "@clearseal/verifier";

export interface Row {
  readonly text: string;
  readonly vector: Float32Array;
  readonly tokens: number | null;
  readonly truncated: boolean | null;
}

/** NumPy's format 1.0: float32, little-endian, C order, shape (items, dimension). */
export function toNpy(rows: readonly Row[]): Uint8Array<ArrayBuffer> {
  const width = rows[0]?.vector.length ?? 0;
  const shape = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows.length}, ${width}), }`;
  // Magic, version and header together are a multiple of 64 bytes, so that the data can be mapped.
  const header = shape.padEnd(Math.ceil((10 + shape.length + 1) / 64) * 64 - 11, " ").concat("\n");
  const start = 10 + header.length;
  const bytes = new Uint8Array(start + rows.length * width * 4);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0]);
  const view = new DataView(bytes.buffer);
  view.setUint16(8, header.length, true);
  bytes.set(new TextEncoder().encode(header), 10);
  for (const [row, { vector }] of rows.entries()) {
    for (const [column, value] of vector.entries())
      view.setFloat32(start + (row * width + column) * 4, value, true);
  }
  return bytes;
}

/** RFC 4180, one item a line: text, tokens, truncated, then one column for each dimension. */
export function toCsv(rows: readonly Row[]): string {
  const width = rows[0]?.vector.length ?? 0;
  const header = ["text", "tokens", "truncated", ...Array.from({ length: width }, (_, at) => `v${at}`)];
  const lines = rows.map(({ text, tokens, truncated, vector }) =>
    [quoted(text), tokens ?? "", truncated ?? "", ...Array.from(vector, shortest)].join(","),
  );
  return `${[header.join(","), ...lines].join("\r\n")}\r\n`;
}

/** Texts, vectors, and what the receipts claim about them. */
export function toJson(model: string, rows: readonly Row[], receipts: readonly ReceiptReport[]): string {
  const data = rows.map(({ text, tokens, truncated, vector }, index) => ({
    index,
    text,
    tokens,
    truncated,
    embedding: Array.from(vector, Number),
  }));
  const float32 = (_: string, value: unknown) =>
    typeof value === "number" ? Number(shortest(value)) : value;
  return JSON.stringify(
    { model, dimension: rows[0]?.vector.length ?? 0, data, receipts: receipts.map(({ claims }) => claims) },
    float32,
  );
}

/** The shortest decimal that reads back as the same float32; integers as they are. */
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
