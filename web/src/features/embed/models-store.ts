import { Store } from "../../ui/store";
import type { Exchanged, SealedRequest } from "../../verifier/messages";
import { open, type Seal } from "../attestation/seal";
import { decodeModels, modelsRequest, type OfferedModel } from "./models";

interface Service {
  get(): { readonly seal: Seal };
  subscribe(subscriber: () => void): () => void;
  exchange(request: SealedRequest, signal: AbortSignal): Promise<Exchanged>;
}

export interface ModelsView {
  /** Empty unless the service holds several. */
  readonly offered: readonly OfferedModel[];
  /** The embedding model that the user chose. */
  readonly chosen: string | null;
}

/** The models of a service with several, described once for each verified manifest. */
export class ModelsStore extends Store<ModelsView> {
  readonly #service: Service;
  /** Digest of the manifest that the list is about, or is being requested for. */
  #about: string | null = null;

  constructor(service: Service) {
    super({ offered: [], chosen: null });
    this.#service = service;
    service.subscribe(() => void this.#follow());
  }

  readonly choose = (model: string): void => this.change({ chosen: model });

  async #follow(): Promise<void> {
    const trust = open(this.#service.get().seal);
    const held = trust?.models ?? [];
    const about = trust?.report.manifest?.sha256 ?? null;
    // A seal that is not closed now may close again over the same manifest.
    if (about === null || about === this.#about) return;
    this.#about = about;
    // With one model, nothing is asked that the manifest does not state.
    const names = held.length > 1 ? held.map(({ id }) => id) : [];
    const offered = names.length > 0 ? await this.#request(names) : [];
    if (this.#about !== about) return;
    if (offered) this.change({ offered });
    // Asked again with the next event.
    else this.#about = null;
  }

  async #request(names: readonly string[]): Promise<OfferedModel[] | null> {
    const answer = await this.#service.exchange(modelsRequest(), new AbortController().signal);
    return answer.status === "answered" ? decodeModels(answer.response, names) : null;
  }
}

/** The model to embed with: the chosen one, otherwise that of the policy, otherwise the first that embeds. */
export function embeddingModel({ offered, chosen }: ModelsView, ofPolicy: string | null): string | null {
  const embedding = offered.filter(({ task }) => task === "embedding").map(({ id }) => id);
  if (ofPolicy === null || embedding.length === 0) return ofPolicy;
  if (chosen !== null && embedding.includes(chosen)) return chosen;
  return embedding.includes(ofPolicy) ? ofPolicy : (embedding[0] ?? null);
}
