/** Receipts that another page sends to the audit. Separate from the audit's own script, which loads only with its page. */
let waiting: { readonly name: string; readonly blob: Blob }[] = [];

export function sendToAudit(name: string, text: string): void {
  waiting.push({ name, blob: new Blob([text]) });
}

/** Returns the waiting receipts, and empties the inbox. */
export function takeForAudit(): { readonly name: string; readonly blob: Blob }[] {
  const taken = waiting;
  waiting = [];
  return taken;
}
