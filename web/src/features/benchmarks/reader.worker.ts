import { read } from "./read";

/** Files are judged away from the page, so that a large or hostile one does not make it stutter. */
self.addEventListener("message", ({ data }: MessageEvent<Uint8Array>) => {
  self.postMessage(read(data));
});
