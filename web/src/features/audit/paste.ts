import { MAX_PASTED_CHARACTERS } from "./audit-store";

/** Longer text becomes an attachment: a text box is unusable with it. */
export const MAX_TYPED_CHARACTERS = 60_000;

/** Destination of pasted or dropped text: the box, which already contains `typed` characters, or an attachment. */
export function pasteDestination(text: string, typed: number): "box" | "attachment" | "too-long" {
  if (text.length + typed <= MAX_TYPED_CHARACTERS) return "box";
  return text.length > MAX_PASTED_CHARACTERS ? "too-long" : "attachment";
}
