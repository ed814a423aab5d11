/** What a caught value says, for the end of a sentence. */
export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : "an unknown error";
}
