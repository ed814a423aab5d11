/** Starts to draw, and calls `done` at the end. */
type Draw = (done: () => void) => void;

const waiting: Draw[] = [];
let drawing: Draw | null = null;
/** Each message is a task: the browser handles input between two tasks. */
const tasks = new MessageChannel();

tasks.port1.onmessage = () => {
  if (drawing) return;
  const next = waiting.shift();
  if (!next) return;
  drawing = next;
  next(() => cancel(next));
};

/** Draws after all earlier ones, each in a separate task. Returns a function that cancels it. */
export function scheduleDraw(draw: Draw): () => void {
  waiting.push(draw);
  wakeQueue();
  return () => cancel(draw);
}

/** Removes it from the queue, or ends its turn. */
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
