/** What another page hands over to be audited. Lives outside the audit page's own script, which loads only there. */
let waiting: { readonly name: string; readonly blob: Blob }[] = [];

export function sendToAudit(name: string, text: string): void {
  waiting.push({ name, blob: new Blob([text]) });
}

/** Gives what waits, once. */
export function takeForAudit(): { readonly name: string; readonly blob: Blob }[] {
  const taken = waiting;
  waiting = [];
  return taken;
}
