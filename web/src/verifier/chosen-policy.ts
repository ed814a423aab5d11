/** A trust policy that the user chose by hand, for this tab. Never kept, and never taken from anything that is judged. */
export interface ChosenPolicy {
  /** Name of the file. */
  readonly file: string;
  /** The policy, JSON text as it was chosen; the verifier reads it. */
  readonly json: string;
}

/** As much as the verifier reads. */
export const MAX_POLICY_BYTES = 64 * 1024;

export class ChosenPolicyStore {
  #chosen: ChosenPolicy | null = null;
  readonly #subscribers = new Set<() => void>();

  readonly get = (): ChosenPolicy | null => this.#chosen;

  readonly subscribe = (subscriber: () => void): (() => void) => {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  };

  /** Takes a policy, or lets go of the one that was taken. */
  readonly choose = (chosen: ChosenPolicy | null): void => {
    this.#chosen = chosen;
    for (const subscriber of this.#subscribers) subscriber();
  };
}

/** The one of this tab: the Embed page and audits judge by the same. */
export const chosenPolicy = new ChosenPolicyStore();
