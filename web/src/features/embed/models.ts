import type { InnerResponse, SealedRequest } from "../../verifier/messages";

/** A model of the verified manifest, with what `GET /v1/models` states about it. */
export interface OfferedModel {
  readonly id: string;
  readonly task: "embedding" | "reranking";
  readonly dimension: number;
  /** Most tokens of a text that it reads. */
  readonly maxTokens: number;
  readonly normalised: boolean;
  readonly prompts: readonly string[];
}

export function modelsRequest(): SealedRequest {
  return { method: "GET", path: "/v1/models", headers: {}, body: new Uint8Array(0) };
}

/** Reads the answer to [`modelsRequest`]: models whose names the manifest states too, in its order. Null if it is not such a list. */
export function decodeModels(response: InnerResponse, held: readonly string[]): OfferedModel[] | null {
  const data = response.status === 200 ? listOf(response.body) : null;
  if (!data) return null;
  const found = new Map(data.flatMap((entry) => describe(entry) ?? []).map((model) => [model.id, model]));
  return held.flatMap((id) => found.get(id) ?? []);
}

/** Says how long its texts may be, the length of its vectors, and its prompts. */
export function describeModel({ dimension, maxTokens, normalised, prompts }: OfferedModel): string {
  const vectors = `Vectors of ${dimension.toLocaleString("en")} numbers${normalised ? "" : ", not of unit length"}.`;
  const texts = `Reads ${maxTokens.toLocaleString("en")} tokens of a text.`;
  if (prompts.length === 0) return `${vectors} ${texts}`;
  return `${vectors} ${texts} Has the prompts ${prompts.join(", ")}; this page sends texts without one.`;
}

function describe(entry: unknown): OfferedModel | null {
  if (!isRecord(entry) || !isRecord(entry.clearseal)) return null;
  const { id } = entry;
  const { task, dimension, max_tokens: maxTokens, normalised, prompts } = entry.clearseal;
  if (
    typeof id !== "string" ||
    (task !== "embedding" && task !== "reranking") ||
    typeof dimension !== "number" ||
    typeof maxTokens !== "number"
  ) {
    return null;
  }
  const names = Array.isArray(prompts) ? prompts.filter((name) => typeof name === "string") : [];
  return { id, task, dimension, maxTokens, normalised: normalised !== false, prompts: names };
}

function listOf(body: Uint8Array): readonly unknown[] | null {
  try {
    const parsed: unknown = JSON.parse(new TextDecoder().decode(body));
    return isRecord(parsed) && Array.isArray(parsed.data) ? parsed.data : null;
  } catch {
    return null;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
