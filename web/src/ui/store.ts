/** State with subscribers, in the form that React's `useSyncExternalStore` requires. */
export abstract class Store<View> {
  #view: View;
  readonly #subscribers = new Set<() => void>();

  constructor(view: View) {
    this.#view = view;
  }

  readonly get = (): View => this.#view;

  /** Calls `subscriber` after each change. Returns a function that unsubscribes. */
  readonly subscribe = (subscriber: () => void): (() => void) => {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  };

  protected show(view: View): void {
    this.#view = view;
    for (const subscriber of this.#subscribers) subscriber();
  }

  /** Replaces some properties of the state. */
  protected change(parts: Partial<View>): void {
    this.show({ ...this.#view, ...parts });
  }
}
