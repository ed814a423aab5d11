/** An event for one waiter. If it is fired while nothing waits, the next wait returns at once. */
export class Wake {
  #fired = false;
  #resolve: (() => void) | null = null;

  /** Bound, so that it can be passed as a listener. */
  readonly fire = (): void => {
    const resolve = this.#resolve;
    this.#resolve = null;
    if (resolve) resolve();
    else this.#fired = true;
  };

  wait(): Promise<void> {
    if (this.#fired) {
      this.#fired = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }
}

/** Resolves after `ms` milliseconds, or when `signal` is aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
  });
}
