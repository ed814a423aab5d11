import { readSession, writeSession } from "../../ui/session";
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
  if (!writeSession(KEY, { model: work.model, items })) writeSession(KEY, null);
}

export function loadRun(): RestoredWork | null {
  const saved = readSession(KEY) as { model?: unknown; items?: unknown } | null;
  if (typeof saved?.model !== "string" || !Array.isArray(saved.items) || saved.items.length === 0)
    return null;
  try {
    return { model: saved.model, items: (saved.items as SavedItem[]).map(readItem) };
  } catch {
    return null;
  }
}

/** Whether items are missing, so that the run ended with the reload. */
export function isUnfinished({ items }: RestoredWork): boolean {
  return items.some(({ embedding }) => embedding === null);
}

function readItem({
  text,
  vector,
  tokens = null,
  truncated = false,
}: SavedItem): RestoredWork["items"][number] {
  if (vector === undefined) return { text, embedding: null };
  const bytes = Uint8Array.from(atob(vector), (one) => one.charCodeAt(0));
  return { text, embedding: { vector: new Float32Array(bytes.buffer), tokens, truncated } };
}
