import { useEffect, useState } from "react";

/** Duration of one slice. The page handles input in between (web.dev: a long task exceeds 50 ms). */
const SLICE_MS = 8;

/** Work that can be interrupted at each `yield`, at least every few milliseconds. */
export type Sliced<T> = Generator<undefined, T, void>;

/** Runs all of it at once: for small work, and for tests. */
export function atOnce<T>(work: Sliced<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

/** Runs slice by slice, with the page's other tasks in between. Rejects when `signal` is aborted. */
export async function inSlices<T>(work: Sliced<T>, signal?: AbortSignal): Promise<T> {
  let until = performance.now() + SLICE_MS;
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    if (performance.now() < until) continue;
    await nextTask();
    signal?.throwIfAborted();
    until = performance.now() + SLICE_MS;
  }
}

/** The result of sliced work, null until it is available. Runs again whenever `make` changes. */
export function useSliced<T>(make: () => Sliced<T>): T | null {
  const [made, setMade] = useState<{ readonly by: unknown; readonly result: T } | null>(null);
  useEffect(() => {
    const controller = new AbortController();
    inSlices(make(), controller.signal).then(
      (result) => {
        if (!controller.signal.aborted) setMade({ by: make, result });
      },
      (cause: unknown) => {
        if (!controller.signal.aborted) throw cause;
      },
    );
    return () => controller.abort();
  }, [make]);
  return made?.by === make ? made.result : null;
}

/**
 * Continues after all pending tasks. `scheduler.yield` would run before timers and messages, so that long work would starve
 * them, and nested timers are delayed by 4 ms.
 */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
