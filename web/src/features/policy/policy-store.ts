import { bytes } from "../../ui/format";
import type { Refusal } from "../../ui/Refusals";
import { Store } from "../../ui/store";

/** A policy that somebody chose with its own control, apart from all evidence. */
export interface ChosenPolicy {
  /** Name of its file. */
  readonly name: string;
  /** JSON, as the verifier gets it. */
  readonly text: string;
}

export interface PolicyView {
  readonly chosen: ChosenPolicy | null;
  /** Name of the policy that is built into this page; null where there is none, undefined until the verifier is up. */
  readonly builtIn: string | null | undefined;
  /** Why the last file was not taken. */
  readonly refusal: Refusal | null;
}

/** The verifier reads no longer policy. */
export const MAX_POLICY_BYTES = 64 * 1024;

/** The part of a `File` that is used, so that tests need none. */
export interface PolicyFile {
  readonly name: string;
  readonly size: number;
  arrayBuffer(): Promise<ArrayBuffer>;
}

/**
 * The trust policy that this tab's user chose by hand. It lives in memory alone. Its control is the only caller of `choose`:
 * what is pasted, dropped, linked to or imported is evidence, and evidence does not choose its judge.
 */
export class PolicyStore extends Store<PolicyView> {
  /** A file that is still being read when another one is chosen, or none, changes nothing. */
  #turn = 0;

  constructor() {
    super({ chosen: null, builtIn: undefined, refusal: null });
  }

  /** Takes the file's policy into use. One that cannot be read leaves in force what was. */
  readonly choose = async (file: PolicyFile): Promise<void> => {
    this.#turn += 1;
    const turn = this.#turn;
    const read = await readPolicy(file);
    if (turn !== this.#turn) return;
    if ("text" in read) this.change({ chosen: { name: file.name, text: read.text }, refusal: null });
    else this.change({ refusal: read });
  };

  /** Back to the policy that is built in, or to none. */
  readonly stop = (): void => {
    this.#turn += 1;
    this.change({ chosen: null, refusal: null });
  };

  /** Which policy a verifier of this page has built in. */
  readonly builtIn = (name: string | null): void => this.change({ builtIn: name });
}

/** Calls `changed` when another policy was chosen, or none is any more. */
export function onChoice(policies: PolicyStore, changed: () => void): () => void {
  let before = policies.get().chosen;
  return policies.subscribe(() => {
    const { chosen } = policies.get();
    if (chosen === before) return;
    before = chosen;
    changed();
  });
}

/** The one of this tab. */
export const policies = new PolicyStore();

/** Reads text that can be a policy. Whether it is one, the verifier says. */
async function readPolicy(file: PolicyFile): Promise<{ readonly text: string } | Refusal> {
  const { name } = file;
  if (file.size > MAX_POLICY_BYTES) {
    const why = `It has ${bytes(file.size)}; a trust policy has 64 KiB at most.`;
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
