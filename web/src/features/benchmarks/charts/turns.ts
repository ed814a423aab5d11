/** Begins to draw, and says when it is done. */
type Draw = (done: () => void) => void;

const waiting: Draw[] = [];
let drawing: Draw | null = null;
/** Its messages are tasks: the browser answers the reader between two of them. */
const tasks = new MessageChannel();

tasks.port1.onmessage = () => {
  if (drawing) return;
  const next = waiting.shift();
  if (!next) return;
  drawing = next;
  next(() => cancel(next));
};

/** Draws after those that were scheduled before, each in a task of its own. Returns a function that cancels it. */
export function scheduleDraw(draw: Draw): () => void {
  waiting.push(draw);
  wakeQueue();
  return () => cancel(draw);
}

/** Takes it out of the queue, or ends its turn. */
function cancel(draw: Draw): void {
  const place = waiting.indexOf(draw);
  if (place >= 0) waiting.splice(place, 1);
  if (drawing !== draw) return;
  drawing = null;
  wakeQueue();
}

function wakeQueue(): void {
  if (!drawing && waiting.length > 0) tasks.port2.postMessage(null);
}
