import type { ServedModel } from "@clearseal/verifier";
import { describe, expect, it } from "vitest";
import type { Exchanged, SealedRequest } from "../../verifier/messages";
import { INITIAL, type Seal } from "../attestation/seal";
import { decodeModels, describeModel } from "./models";
import { embeddingModel, ModelsStore } from "./models-store";

const entry = (id: string, task = "embedding", more: object = {}) => ({
  id,
  object: "model",
  clearseal: { task, dimension: 384, normalised: true, max_tokens: 512, prompts: [], ...more },
});

function answer(data: unknown, status = 200): Extract<Exchanged, { status: "answered" }> {
  const body = new TextEncoder().encode(JSON.stringify({ object: "list", data }));
  return {
    status: "answered",
    exchange: 1,
    response: { status, headers: [], body },
    receipt: null,
    origin: null,
  };
}

const LIST = [
  entry("small"),
  entry("org/small"),
  entry("e5", "embedding", { prompts: ["query", "passage"], dimension: 1024 }),
  entry("ranker", "reranking", { dimension: 1, normalised: false }),
  { id: "broken" },
];
const HELD = ["small", "ranker", "e5", "gone"];

describe("decodeModels", () => {
  it("lists each model of the manifest once, under its own name", () => {
    const models = decodeModels(answer(LIST).response, HELD);
    expect(models?.map(({ id, task }) => [id, task])).toEqual([
      ["small", "embedding"],
      ["ranker", "reranking"],
      ["e5", "embedding"],
    ]);
  });

  it("refuses an answer that is not a list", () => {
    expect(decodeModels(answer(LIST, 404).response, HELD)).toBeNull();
    expect(decodeModels(answer("text").response, HELD)).toBeNull();
  });

  it("describes dimension, longest text and prompts", () => {
    const [small, , e5] = decodeModels(answer(LIST).response, HELD) ?? [];
    if (!small || !e5) throw new Error("not listed");
    expect(describeModel(small)).toBe("Vectors of 384 numbers. Reads 512 tokens of a text.");
    expect(describeModel(e5)).toContain("Vectors of 1,024 numbers.");
    expect(describeModel(e5)).toContain("prompts query, passage");
  });
});

/** A seal over a service with these models, and the requests that it gets. */
function service(models: readonly string[], reply: () => Exchanged) {
  const subscribers = new Set<() => void>();
  const sent: SealedRequest[] = [];
  let seal: Seal = INITIAL;
  const served = models.map((id) => ({ id }) as ServedModel);
  return {
    sent,
    get: () => ({ seal }),
    subscribe: (subscriber: () => void) => {
      subscribers.add(subscriber);
      return () => undefined;
    },
    exchange: async (request: SealedRequest) => {
      sent.push(request);
      return reply();
    },
    close: async (sha256: string) => {
      const report = { manifest: { modelId: models[0], sha256 } };
      seal = { at: "closed", trust: { report, evidence: null, validUntilMs: 1, models: served } } as never;
      for (const subscriber of subscribers) subscriber();
      await new Promise((resolve) => setTimeout(resolve, 0));
    },
  };
}

describe("ModelsStore", () => {
  it("asks once for each manifest that names several models", async () => {
    const seal = service(HELD, () => answer(LIST));
    const store = new ModelsStore(seal);
    await seal.close("one");
    await seal.close("one");
    expect(seal.sent.map(({ path }) => path)).toEqual(["/v1/models"]);
    expect(store.get().offered).toHaveLength(3);
    await seal.close("two");
    expect(seal.sent).toHaveLength(2);
  });

  it("asks nothing where there is one model", async () => {
    const seal = service(["small"], () => answer(LIST));
    const store = new ModelsStore(seal);
    await seal.close("one");
    expect(seal.sent).toEqual([]);
    expect(store.get().offered).toEqual([]);
  });

  it("asks again after a request without an answer", async () => {
    const problem = { code: "X", title: "x", detail: "x", remedy: "x" };
    let reply: Exchanged = { status: "unreachable", problem };
    const seal = service(HELD, () => reply);
    const store = new ModelsStore(seal);
    await seal.close("one");
    reply = answer(LIST);
    await seal.close("one");
    expect(store.get().offered).toHaveLength(3);
  });
});

describe("embeddingModel", () => {
  const offered = decodeModels(answer(LIST).response, HELD) ?? [];

  it("is the chosen one, otherwise that of the policy, otherwise one that embeds", () => {
    expect(embeddingModel({ offered, chosen: "e5" }, "small")).toBe("e5");
    expect(embeddingModel({ offered, chosen: null }, "small")).toBe("small");
    expect(embeddingModel({ offered, chosen: "ranker" }, "ranker")).toBe("small");
    expect(embeddingModel({ offered: [], chosen: null }, "small")).toBe("small");
    expect(embeddingModel({ offered, chosen: "e5" }, null)).toBeNull();
  });
});
