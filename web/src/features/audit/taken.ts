import { MAX_PASTED_CHARACTERS } from "./audit-store";

/** Longer text does not go into the text box: no text box stays usable with it. */
export const MAX_TYPED_CHARACTERS = 60_000;

/** Where text goes that comes in one piece: into the box, which then holds `typed` characters besides, or beside it as a file does. */
export function placeOfText(text: string, typed: number): "box" | "beside it" | "nowhere: too long" {
  if (text.length + typed <= MAX_TYPED_CHARACTERS) return "box";
  return text.length > MAX_PASTED_CHARACTERS ? "nowhere: too long" : "beside it";
}
