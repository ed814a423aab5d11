import type { Problem } from "@clearseal/verifier";
import { decodeEmbeddings, embeddingsRequest } from "./openai";
import type { Receipt } from "./run";
import type { Service } from "./run-store";

export type Search =
  | { readonly at: "idle" }
  | { readonly at: "asking"; readonly query: string }
  | {
      readonly at: "found";
      readonly query: string;
      readonly vector: Float32Array;
      readonly truncated: boolean;
      readonly sequence: number | null;
    }
  | { readonly at: "failed"; readonly query: string; readonly problem: Problem };

/** A question about what was embedded. It travels sealed as the texts did; ranking happens in the tab. */
export class SearchStore {
  #search: Search = { at: "idle" };
  #receipts: readonly Receipt[] = [];
  #controller: AbortController | null = null;
  readonly #service: Pick<Service, "exchange">;
  readonly #subscribers = new Set<() => void>();

  constructor(service: Pick<Service, "exchange">) {
    this.#service = service;
  }

  readonly get = (): Search => this.#search;

  /** Of every question that was asked in this tab. */
  readonly receipts = (): readonly Receipt[] => this.#receipts;

  readonly subscribe = (subscriber: () => void): (() => void) => {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  };

  /** Embeds `query`; a later question takes the place of one that is under way. */
  readonly ask = async (model: string, query: string): Promise<void> => {
    this.#controller?.abort();
    const controller = new AbortController();
    this.#controller = controller;
    this.#update({ at: "asking", query });
    const exchanged = await this.#service.exchange(embeddingsRequest(model, [query]), controller.signal);
    if (this.#controller !== controller) return;
    if (exchanged.status !== "answered") {
      this.#update({ at: "failed", query, problem: exchanged.problem });
      return;
    }
    const decoded = decodeEmbeddings(exchanged.response, 1);
    if (decoded.status !== "embedded") {
      this.#update({ at: "failed", query, problem: decoded.problem });
      return;
    }
    const { exchange, receipt, origin } = exchanged;
    if (receipt) this.#receipts = [...this.#receipts, { exchange, report: receipt, origin, items: [0] }];
    const [embedding] = decoded.embeddings;
    if (!embedding) return;
    this.#update({
      at: "found",
      query,
      vector: embedding.vector,
      truncated: embedding.truncated === true,
      sequence: receipt?.claims?.sequenceNumber ?? null,
    });
  };

  /** Forgets the question: what it was asked of is there no more. */
  readonly clear = (): void => {
    this.#controller?.abort();
    this.#controller = null;
    this.#update({ at: "idle" });
  };

  #update(search: Search): void {
    this.#search = search;
    for (const subscriber of this.#subscribers) subscriber();
  }
}
