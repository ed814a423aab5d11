/** Saves bytes or text as a file; nothing leaves the page. */
export function download(name: string, type: string, content: BlobPart): void {
  downloadBlob(name, new Blob([content], { type }));
}

export function downloadBlob(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The click has started the save; the URL is needed for no longer than this turn.
  setTimeout(() => URL.revokeObjectURL(url), 1_000);
}
