/** Saves bytes or text as a file; nothing leaves the page. */
export function download(name: string, type: string, content: BlobPart): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The click has started the save; the URL is needed for no longer than this turn.
  setTimeout(() => URL.revokeObjectURL(url), 1_000);
}
