import { readSession, writeSession } from "../../ui/session";
import { readCounts } from "./kept";
import { type RestoredWork, type Run, workOf } from "./run";

const KEY = "clearseal.run";

/** A browser stores about five million characters for a tab, and the input needs some of them. */
const MAX_CHARACTERS = 3_500_000;

interface SavedItem {
  readonly text: string;
  /** Base64 of the 32-bit floats. */
  readonly vector?: string;
  readonly tokens?: number | null;
  readonly truncated?: boolean | null;
}

/** Keeps texts and vectors through a reload of this tab. Vectors beyond its storage are dropped: they can be embedded again. */
export function saveRun(run: Run): void {
  const work = workOf(run);
  if (!work) return;
  let room = MAX_CHARACTERS - work.items.reduce((sum, { text }) => sum + text.length, 0);
  const items = work.items.map(({ text, outcome }): SavedItem => {
    if (outcome.at !== "embedded") return { text };
    const { vector, tokens, truncated } = outcome.embedding;
    room -= Math.ceil((vector.byteLength * 4) / 3) + 60;
    if (room < 0) return { text };
    const bytes = new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);
    return { text, vector: btoa(String.fromCharCode(...bytes)), tokens, truncated };
  });
  const ended = run.at === "finished";
  if (!writeSession(KEY, { model: work.model, ended, items })) writeSession(KEY, null);
}

/** The record may come from an earlier version of the page: one that this version cannot show is ignored. */
export function loadRun(): RestoredWork | null {
  const saved = readSession(KEY) as { model?: unknown; ended?: unknown; items?: unknown } | null;
  if (typeof saved?.model !== "string" || !Array.isArray(saved.items) || saved.items.length === 0)
    return null;
  try {
    const items = (saved.items as SavedItem[]).map(readItem);
    const widths = new Set(items.flatMap(({ embedding }) => embedding?.vector.length ?? []));
    if (widths.size > 1) return null;
    return { model: saved.model, ended: saved.ended === true, items };
  } catch {
    return null;
  }
}

function readItem({ text, vector, tokens, truncated }: SavedItem): RestoredWork["items"][number] {
  if (typeof text !== "string") throw new TypeError("an item has no text");
  if (vector === undefined) return { text, embedding: null };
  const bytes = Uint8Array.from(atob(vector), (one) => one.charCodeAt(0));
  const floats = new Float32Array(bytes.buffer);
  if (floats.length === 0 || !floats.every(Number.isFinite)) throw new TypeError("a vector is not one");
  return { text, embedding: { vector: floats, ...readCounts({ tokens, truncated }) } };
}
