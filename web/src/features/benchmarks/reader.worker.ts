import { read } from "./read";
import { type Answer, sourceOf } from "./runs";

/** A file to read. */
export interface Question {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Names of the page's own sources. */
  readonly taken: readonly string[];
}

/** Runs per message: receiving ten thousand at once would block the page for longer than a frame. */
const PART = 200;

/** Reads files in a worker, so that a large or hostile file does not block the page. */
self.addEventListener("message", ({ data: { name, bytes, taken } }: MessageEvent<Question>) => {
  const answer = (message: Answer) => self.postMessage(message);
  const reading = read(bytes);
  if (reading.status === "refused") {
    answer(reading);
    return;
  }
  const { runs, byKey: _, ...source } = sourceOf(name, "dropped", reading, taken);
  for (let first = 0; first < runs.length; first += PART) {
    answer({ status: "part", runs: runs.slice(first, first + PART) });
  }
  answer({ status: "read", source: { ...source, contents: contentsOf(bytes) }, notices: reading.notices });
});

/** Length and FNV-1a, to detect a file that is opened twice. Not used for security. */
function contentsOf(bytes: Uint8Array): string {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  return `${bytes.length}-${hash >>> 0}`;
}
