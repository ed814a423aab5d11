import { bytes } from "../../ui/format";
import type { Refusal } from "../../ui/Refusals";
import { Store } from "../../ui/store";

/** A policy that the user chose with its own control, separate from all evidence. */
export interface ChosenPolicy {
  /** Name of its file. */
  readonly name: string;
  /** JSON text that the verifier receives. */
  readonly text: string;
}

export interface PolicyView {
  readonly chosen: ChosenPolicy | null;
  /** Name of the policy built into this page; null if there is none, undefined until the verifier has started. */
  readonly builtIn: string | null | undefined;
  /** Why the last file was rejected. */
  readonly refusal: Refusal | null;
}

/** The verifier rejects longer policies. */
export const MAX_POLICY_BYTES = 64 * 1024;

/** The part of `File` that the store uses. */
export interface PolicyFile {
  readonly name: string;
  readonly size: number;
  arrayBuffer(): Promise<ArrayBuffer>;
}

/**
 * The trust policy that the user chose in this tab, kept only in memory. The policy control is the only caller of `choose`:
 * anything pasted, dropped, linked or imported is evidence, and evidence must not choose the policy that appraises it.
 */
export class PolicyStore extends Store<PolicyView> {
  /** Numbers the choices: a file that is still being read when a later choice is made changes nothing. */
  #turn = 0;

  constructor() {
    super({ chosen: null, builtIn: undefined, refusal: null });
  }

  /** Uses the file's policy. An unreadable file leaves the current policy in use. */
  readonly choose = async (file: PolicyFile): Promise<void> => {
    this.#turn += 1;
    const turn = this.#turn;
    const read = await readPolicy(file);
    if (turn !== this.#turn) return;
    if ("text" in read) this.change({ chosen: { name: file.name, text: read.text }, refusal: null });
    else this.change({ refusal: read });
  };

  /** Returns to the built-in policy, or to none. */
  readonly stop = (): void => {
    this.#turn += 1;
    this.change({ chosen: null, refusal: null });
  };

  /** Records the policy that the verifier reports as built in. */
  readonly builtIn = (name: string | null): void => this.change({ builtIn: name });
}

/** Calls `changed` when the chosen policy changes or is removed. */
export function onPolicyChange(policies: PolicyStore, changed: () => void): () => void {
  let before = policies.get().chosen;
  return policies.subscribe(() => {
    const { chosen } = policies.get();
    if (chosen === before) return;
    before = chosen;
    changed();
  });
}

/** The store of this tab. */
export const policies = new PolicyStore();

/** Reads JSON text. The verifier decides whether it is a policy. */
async function readPolicy(file: PolicyFile): Promise<{ readonly text: string } | Refusal> {
  const { name } = file;
  if (file.size > MAX_POLICY_BYTES) {
    const why = `It has ${bytes(file.size)}; a trust policy has at most 64 KiB.`;
    return { name, why, remedy: "Choose the policy's own file." };
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    JSON.parse(text);
    return { text };
  } catch {
    const why = "It is not JSON text, or it could not be read.";
    return { name, why, remedy: "Choose a trust policy, format `clearseal-trust-policy/1`." };
  }
}
