import { read } from "./read";
import { type Answer, sourceOf } from "./runs";

/** Runs in one message: taking ten thousand over at once would block the page for longer than a frame. */
const PART = 200;

/** Files are judged away from the page, so that a large or hostile one does not make it stutter. */
self.addEventListener("message", ({ data }: MessageEvent<{ name: string; bytes: Uint8Array }>) => {
  const answer = (message: Answer) => self.postMessage(message);
  const reading = read(data.bytes);
  if (reading.status === "refused") {
    answer(reading);
    return;
  }
  const { runs, byKey: _, ...source } = sourceOf(data.name, "dropped", reading);
  for (let first = 0; first < runs.length; first += PART) {
    answer({ status: "part", runs: runs.slice(first, first + PART) });
  }
  answer({ status: "read", source, notices: reading.notices });
});
