import { useEffect, useState } from "react";

/** Longest that one slice of work takes: the page answers its reader in between (web.dev: long tasks are those over 50 ms). */
const SLICE_MS = 8;

/** Work that can be interrupted: it yields wherever it may be, every few milliseconds at least. */
export type Sliced<T> = Generator<undefined, T, void>;

/** All of it now: for little work, and for tests. */
export function atOnce<T>(work: Sliced<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

/** A slice at a time, with the page's own work in between. Rejects when `signal` is aborted. */
export async function inSlices<T>(work: Sliced<T>, signal?: AbortSignal): Promise<T> {
  let until = performance.now() + SLICE_MS;
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    if (performance.now() < until) continue;
    await turn();
    signal?.throwIfAborted();
    until = performance.now() + SLICE_MS;
  }
}

/** The result of sliced work, null until it is there. `make` is called again where it is another function than before. */
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
 * Behind everything that waits already. `scheduler.yield` goes before timers and messages, so that long work would starve them, and
 * nested timers wait for 4 ms each.
 */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
