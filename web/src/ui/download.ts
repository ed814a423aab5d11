/** Saves bytes or text as a file, without network. */
export function download(name: string, type: string, content: BlobPart): void {
  downloadBlob(name, new Blob([content], { type }));
}

export function downloadBlob(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The click starts the save; the URL is not needed afterwards.
  setTimeout(() => URL.revokeObjectURL(url), 1_000);
}
