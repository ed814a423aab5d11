/** Path of the list of a built page's files, in the format of `sha256sum`. */
export const LIST = "/files.txt";

/** A longer list is rejected: no page has as many files. */
const MAX_FILES = 2_000;

export interface PageFile {
  /** Path below the page's address. */
  readonly name: string;
  /** Hex. */
  readonly sha256: string;
}

/** Parses the list; null for anything else, such as an error page. */
export function readList(text: string): readonly PageFile[] | null {
  const lines = text.split("\n").slice(0, -1);
  if (lines.length === 0 || lines.length > MAX_FILES || !text.endsWith("\n")) return null;
  const files: PageFile[] = [];
  for (const line of lines) {
    const [, sha256, name] = /^([0-9a-f]{64}) {2}([\w./-]{1,200})$/.exec(line) ?? [];
    if (sha256 === undefined || name === undefined) return null;
    files.push({ name, sha256 });
  }
  return files;
}

/** The command that compares the files of a build with those that an origin serves. The names come from the build's own list. */
export function pageCommand(origin: string): string {
  return `while read -r hash file; do curl -fsS "${origin}/$file" | sha256sum | grep -q "^$hash" || echo "differs: $file"; done < files.txt`;
}
