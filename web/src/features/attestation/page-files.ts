/** Where a built page lists its files: a line each, as `sha256sum` writes them. */
export const LIST = "/files.txt";

/** More than any page has; a list beyond it is none. */
const MOST = 2_000;

export interface PageFile {
  /** Path below the page's address. */
  readonly name: string;
  /** Hex. */
  readonly sha256: string;
}

/** The files of a list; null for anything that is no such list, an error page included. */
export function readList(text: string): readonly PageFile[] | null {
  const lines = text.split("\n").slice(0, -1);
  if (lines.length === 0 || lines.length > MOST || !text.endsWith("\n")) return null;
  const files: PageFile[] = [];
  for (const line of lines) {
    const [, sha256, name] = /^([0-9a-f]{64}) {2}([\w./-]{1,200})$/.exec(line) ?? [];
    if (sha256 === undefined || name === undefined) return null;
    files.push({ name, sha256 });
  }
  return files;
}

/** Compares what an address serves with the files of a build: its names come out of the build's own list. */
export function pageCommand(origin: string): string {
  return `while read -r hash file; do curl -fsS "${origin}/$file" | sha256sum | grep -q "^$hash" || echo "differs: $file"; done < files.txt`;
}
