import type { Problem } from "@clearseal/verifier";
import { Store } from "../../ui/store";
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

/** A query against the embedded items. It is sealed as the texts were; the tab ranks the items. */
export class SearchStore extends Store<Search> {
  #receipts: readonly Receipt[] = [];
  #controller: AbortController | null = null;
  readonly #service: Pick<Service, "exchange">;

  constructor(service: Pick<Service, "exchange">) {
    super({ at: "idle" });
    this.#service = service;
  }

  /** Receipts of all queries in this tab. */
  readonly receipts = (): readonly Receipt[] => this.#receipts;

  /** Embeds `query`; a later query replaces one in flight. */
  readonly ask = async (model: string, query: string): Promise<void> => {
    this.#controller?.abort();
    const controller = new AbortController();
    this.#controller = controller;
    this.show({ at: "asking", query });
    const exchanged = await this.#service.exchange(embeddingsRequest(model, [query]), controller.signal);
    if (this.#controller !== controller) return;
    if (exchanged.status !== "answered") {
      this.show({ at: "failed", query, problem: exchanged.problem });
      return;
    }
    const decoded = decodeEmbeddings(exchanged.response, 1);
    if (decoded.status !== "embedded") {
      this.show({ at: "failed", query, problem: decoded.problem });
      return;
    }
    const { exchange, receipt, origin } = exchanged;
    if (receipt) this.#receipts = [...this.#receipts, { exchange, report: receipt, origin, items: [0] }];
    const [embedding] = decoded.embeddings;
    if (!embedding) return;
    this.show({
      at: "found",
      query,
      vector: embedding.vector,
      truncated: embedding.truncated === true,
      sequence: receipt?.claims?.sequenceNumber ?? null,
    });
  };

  /** Discards the query, because its items are gone. */
  readonly clear = (): void => {
    this.#controller?.abort();
    this.#controller = null;
    this.show({ at: "idle" });
  };
}
