import type { Problem } from "@clearseal/verifier";
import { inSlices } from "../../ui/slices";
import { Store } from "../../ui/store";
import type { Reranked, RerankRequest } from "../../verifier/messages";
import { decodeEmbeddings, embeddingsRequest } from "./openai";
import type { Receipt } from "./run";
import type { Service } from "./run-store";
import { type Neighbour, ranked } from "./vectors";

/** An item that a cross-encoder scored. */
export interface ScoredItem extends Neighbour {
  readonly score: number;
  /** Query and text together were longer than the model reads. */
  readonly truncated: boolean;
}

/** The second step of a search: the nearest items, scored again together with the query. */
export type Rescored =
  | { readonly at: "asking"; readonly model: string }
  | {
      readonly at: "scored";
      readonly model: string;
      /** The best first. */
      readonly items: readonly ScoredItem[];
      readonly verdict: string;
      readonly sequence: number | null;
    }
  | { readonly at: "failed"; readonly model: string; readonly problem: Problem };

/** How to score items again. */
export interface Rerank {
  readonly model: string;
  readonly texts: readonly string[];
  readonly vectors: readonly Float32Array[];
}

/** Number of nearest items that are scored again. */
export const RESCORED = 20;

export type Search =
  | { readonly at: "idle" }
  | { readonly at: "asking"; readonly query: string }
  | {
      readonly at: "found";
      readonly query: string;
      readonly vector: Float32Array;
      readonly truncated: boolean;
      readonly sequence: number | null;
      readonly rescored: Rescored | null;
    }
  | { readonly at: "failed"; readonly query: string; readonly problem: Problem };

type SearchService = Pick<Service, "exchange"> & {
  rerank?(request: RerankRequest, signal: AbortSignal): Promise<Reranked>;
};

const NO_RERANKER: Problem = {
  code: "NO_RERANKER",
  title: "Nothing was scored again",
  detail: "This service has no model that scores pairs.",
  remedy: "Search without it.",
};

/** A query against the embedded items. It is sealed as the texts were; the tab ranks the items. */
export class SearchStore extends Store<Search> {
  #receipts: readonly Receipt[] = [];
  #controller: AbortController | null = null;
  readonly #service: SearchService;

  constructor(service: SearchService) {
    super({ at: "idle" });
    this.#service = service;
  }

  /** Receipts of all queries in this tab. */
  readonly receipts = (): readonly Receipt[] => this.#receipts;

  /** Embeds `query`, and scores the nearest items again; a later query replaces one in flight. */
  readonly ask = async (model: string, query: string, rerank: Rerank | null = null): Promise<void> => {
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
      rescored: rerank && { at: "asking", model: rerank.model },
    });
    if (!rerank) return;
    const rescored = await this.#rescore(query, embedding.vector, rerank, controller.signal);
    const found = this.get();
    if (this.#controller === controller && found.at === "found") this.show({ ...found, rescored });
  };

  async #rescore(
    query: string,
    vector: Float32Array,
    { model, texts, vectors }: Rerank,
    signal: AbortSignal,
  ): Promise<Rescored> {
    const nearest = await inSlices(ranked(vectors, vector, RESCORED));
    const documents = nearest.map(({ index }) => texts[index] ?? "");
    const answer = await this.#service.rerank?.({ model, query, documents }, signal);
    if (answer?.status !== "ranked") return { at: "failed", model, problem: answer?.problem ?? NO_RERANKER };
    const { results, receipt, exchange, origin } = answer;
    const items = nearest.map(({ index }) => index);
    this.#receipts = [...this.#receipts, { exchange, report: receipt, origin, items }];
    return {
      at: "scored",
      model,
      items: results.flatMap(({ index: place, score, truncated }) => {
        const near = nearest[place];
        return near ? [{ ...near, score, truncated }] : [];
      }),
      verdict: receipt.verdict,
      sequence: receipt.claims?.sequenceNumber ?? null,
    };
  }

  /** Discards the query, because its items are gone. */
  readonly clear = (): void => {
    this.#controller?.abort();
    this.#controller = null;
    this.show({ at: "idle" });
  };
}
