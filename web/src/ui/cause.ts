/** Message of a caught value, for the end of a sentence. */
export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : "an unknown error";
}
