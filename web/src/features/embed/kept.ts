import { type OneRecord, oneRecord } from "../../ui/one-record";
import type { Embedding } from "./openai";

/** Texts and their vectors as stored in the browser. Receipts are stored separately. */
export interface KeptWork {
  readonly model: string;
  readonly keptAtMs: number;
  readonly items: readonly { readonly text: string; readonly embedding: Embedding }[];
}

export type WorkStorage = OneRecord<KeptWork>;

export const workStorage: WorkStorage = oneRecord("clearseal.embedded", "embedded", readWork);

/** A stored value may come from another version, or be altered: anything invalid is ignored. */
export function readWork(value: unknown): KeptWork | null {
  if (typeof value !== "object" || value === null) return null;
  const { model, keptAtMs, items } = value as Partial<KeptWork>;
  if (typeof model !== "string" || typeof keptAtMs !== "number" || !Array.isArray(items)) return null;
  const [first] = items as KeptWork["items"];
  const width = first?.embedding?.vector?.length;
  const valid = (item: Partial<KeptWork["items"][number]> | null) =>
    typeof item?.text === "string" &&
    item.embedding?.vector instanceof Float32Array &&
    item.embedding.vector.length === width &&
    item.embedding.vector.every(Number.isFinite);
  if (items.length === 0 || !items.every(valid)) return null;
  const read = items.map(({ text, embedding }: KeptWork["items"][number]) => ({
    text,
    embedding: { vector: embedding.vector, ...readCounts(embedding) },
  }));
  return { model, keptAtMs, items: read };
}

/** Both are null if the record has none. */
export function readCounts({ tokens, truncated }: { tokens?: unknown; truncated?: unknown }) {
  return {
    tokens: typeof tokens === "number" ? tokens : null,
    truncated: typeof truncated === "boolean" ? truncated : null,
  };
}
