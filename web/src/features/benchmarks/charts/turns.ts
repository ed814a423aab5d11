/** Begins to draw, and says when it is done. */
type Draw = (done: () => void) => void;

const waiting: Draw[] = [];
let drawing: Draw | null = null;
const bell = new MessageChannel();

bell.port1.onmessage = () => {
  if (drawing) return;
  const next = waiting.shift();
  if (!next) return;
  drawing = next;
  next(() => leave(next));
};

/**
 * Draws when those who asked before are done, and in a task of its own, so that the page answers its reader between two
 * pictures. Returns the way out of the queue.
 */
export function inTurn(draw: Draw): () => void {
  waiting.push(draw);
  ring();
  return () => leave(draw);
}

function leave(draw: Draw): void {
  const place = waiting.indexOf(draw);
  if (place >= 0) waiting.splice(place, 1);
  if (drawing !== draw) return;
  drawing = null;
  ring();
}

function ring(): void {
  if (!drawing && waiting.length > 0) bell.port2.postMessage(null);
}
