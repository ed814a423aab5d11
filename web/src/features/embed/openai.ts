import type { Problem } from "@clearseal/verifier";
import type { InnerResponse, SealedRequest } from "../../verifier/messages";

/** The vector of one text. */
export interface Embedding {
  readonly vector: Float32Array;
  /** Tokens that the model read; null if the service did not report it. */
  readonly tokens: number | null;
  /** Whether the text was longer than the model reads; null if the service did not report it. */
  readonly truncated: boolean | null;
}

export type Decoded =
  | { readonly status: "embedded"; readonly embeddings: readonly Embedding[] }
  /** Overloaded: the same request may succeed later. */
  | { readonly status: "busy"; readonly retryAfterMs: number | null; readonly problem: Problem }
  /** The request is invalid: do not retry. */
  | { readonly status: "rejected"; readonly problem: Problem }
  /** The service failed. */
  | { readonly status: "failed"; readonly problem: Problem };

/** `POST /v1/embeddings` in OpenAI's format. Vectors are base64, a third of the size of decimal text. */
export function embeddingsRequest(model: string, texts: readonly string[]): SealedRequest {
  const body = new TextEncoder().encode(JSON.stringify({ model, input: texts, encoding_format: "base64" }));
  return {
    model,
    method: "POST",
    path: "/v1/embeddings",
    headers: { "content-type": "application/json" },
    body,
  };
}

/** Reads the answer to [`embeddingsRequest`] for `count` texts. */
export function decodeEmbeddings(response: InnerResponse, count: number): Decoded {
  const body = parse(response.body);
  if (response.status === 200) return decodeList(body, count);
  const problem = errorOf(body, response.status);
  if (response.status === 429 || response.status === 503) {
    return { status: "busy", retryAfterMs: retryAfter(response), problem };
  }
  return { status: response.status >= 400 && response.status < 500 ? "rejected" : "failed", problem };
}

function decodeList(body: unknown, count: number): Decoded {
  const data = isRecord(body) ? body.data : undefined;
  if (!Array.isArray(data) || data.length !== count)
    return malformed(`it is not a list of ${count} embeddings`);
  const embeddings: Embedding[] = [];
  for (const entry of data as unknown[]) {
    if (!isRecord(entry)) return malformed("an entry is not an object");
    const index = entry.index;
    const vector = vectorOf(entry.embedding);
    if (
      typeof index !== "number" ||
      !Number.isInteger(index) ||
      index < 0 ||
      index >= count ||
      embeddings[index]
    ) {
      return malformed("an entry's index is missing, repeated or out of range");
    }
    if (!vector) return malformed(`embedding ${index} is not a list of finite numbers`);
    const extra = isRecord(entry.clearseal) ? entry.clearseal : entry;
    embeddings[index] = {
      vector,
      tokens: typeof extra.tokens === "number" ? extra.tokens : null,
      truncated: typeof extra.truncated === "boolean" ? extra.truncated : null,
    };
  }
  const length = embeddings[0]?.vector.length;
  if (embeddings.some(({ vector }) => vector.length !== length))
    return malformed("its embeddings differ in length");
  return { status: "embedded", embeddings };
}

function vectorOf(value: unknown): Float32Array | null {
  let vector: Float32Array;
  if (typeof value === "string") {
    const bytes = bytesOf(value);
    if (!bytes || bytes.byteLength === 0 || bytes.byteLength % 4 !== 0) return null;
    const view = new DataView(bytes.buffer);
    vector = Float32Array.from({ length: bytes.byteLength / 4 }, (_, at) => view.getFloat32(at * 4, true));
  } else if (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((number) => typeof number === "number")
  ) {
    vector = Float32Array.from(value);
  } else return null;
  return vector.every(Number.isFinite) ? vector : null;
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
}

function parse(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
  }
}

function errorOf(body: unknown, status: number): Problem {
  const error = isRecord(body) && isRecord(body.error) ? body.error : {};
  const code = typeof error.code === "string" ? error.code : `HTTP_${status}`;
  const detail =
    typeof error.message === "string" ? error.message : `The enclave answered with status ${status}.`;
  return {
    code,
    title: "The enclave could not embed this",
    detail,
    remedy: status < 500 && status !== 429 ? "Change the text, then embed again." : "Try again.",
  };
}

function malformed(why: string): Decoded {
  return {
    status: "failed",
    problem: {
      code: "MALFORMED_ANSWER",
      title: "The enclave's answer is malformed",
      detail: `The answer was sealed and signed, but ${why}.`,
      remedy: "Try again. If this repeats, the page and the enclave have different versions.",
    },
  };
}

function retryAfter(response: InnerResponse): number | null {
  const value = response.headers.find(([name]) => name.toLowerCase() === "retry-after")?.[1];
  const seconds = value === undefined ? Number.NaN : Number(value);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
