/** State that views read, and hear of when it is another: what React's `useSyncExternalStore` asks for. */
export abstract class Store<View> {
  #view: View;
  readonly #subscribers = new Set<() => void>();

  constructor(view: View) {
    this.#view = view;
  }

  readonly get = (): View => this.#view;

  /** Calls `subscriber` after each change. Returns what ends that. */
  readonly subscribe = (subscriber: () => void): (() => void) => {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  };

  protected show(view: View): void {
    this.#view = view;
    for (const subscriber of this.#subscribers) subscriber();
  }

  /** Changes parts of it. */
  protected change(parts: Partial<View>): void {
    this.show({ ...this.#view, ...parts });
  }
}
