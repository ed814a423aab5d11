import type { ReceiptReport } from "../pkg/clearseal_verifier.js";
import { canProve, provePairs, type ScoredPair } from "./pairs.js";
import {
  type RankedDocument,
  type Ranking,
  type RerankOptions,
  SealedFetchError,
  type Session,
} from "./types.js";

/** Scores `documents` for `query` with the model that `session` has verified, and proves each score. */
export async function rerank(
  session: Session,
  query: string,
  documents: readonly string[],
  { topN, truncate, signal }: RerankOptions,
): Promise<Ranking> {
  if (!canProve()) throw lacksHashes();
  const model = session.report.manifest?.modelId ?? "";
  // As the enclave reads them: a lone surrogate has no UTF-8.
  const asked = wellFormed(query);
  const texts = documents.map(wellFormed);
  const body = JSON.stringify({ model, query: asked, documents: texts, top_n: topN, truncate });
  const headers = { "content-type": "application/json" };
  const result = await session.exchange(
    { method: "POST", path: "/v1/rerank", headers, body },
    { ...(signal !== undefined && { signal }) },
  );
  switch (result.status) {
    case "answered":
      break;
    case "refused":
      throw new SealedFetchError(result.code, result.message, result.remedy);
    case "unreachable":
      throw new SealedFetchError(result.problem.code, result.problem.detail, result.problem.remedy);
    case "key-unknown":
      // An exchange ends with this only if the enclave was verified again in between.
      throw invalid();
  }
  const { response, receipt } = result;
  const answer = parse(response.body);
  if (response.status !== 200) throw serviceError(answer, response.status);
  const expected = Math.min(topN ?? texts.length, texts.length);
  const scored = readResults(answer, texts, expected);
  // The module refuses a successful answer to a POST without a receipt.
  if (receipt === null) throw invalid();
  const { evidence, proofs } = await provePairs(result.bundleWithSalt(), asked, scored, response.body);
  const results = scored.map(
    (pair, place): RankedDocument => ({
      ...pair,
      score: Math.fround(pair.score),
      proof: proofs[place] ?? "",
    }),
  );
  const { bundle, bundleWithContent, bundleWithSalt } = result;
  return {
    query: asked,
    results,
    evidence,
    model: nameOf(receipt),
    receipt,
    bundle,
    bundleWithContent,
    bundleWithSalt,
  };
}

interface Result extends ScoredPair {
  readonly index: number;
}

/** Reads `expected` results about `documents`: each document at most once. */
function readResults(answer: unknown, documents: readonly string[], expected: number): Result[] {
  const results = isRecord(answer) ? answer.results : undefined;
  if (!Array.isArray(results) || results.length !== expected) throw invalid();
  const seen = new Set<number>();
  return results.map((entry: unknown): Result => {
    const { index, relevance_score: score, clearseal } = isRecord(entry) ? entry : {};
    const { tokens, truncated } = isRecord(clearseal) ? clearseal : {};
    const document = typeof index === "number" ? documents[index] : undefined;
    if (
      typeof index !== "number" ||
      document === undefined ||
      seen.has(index) ||
      typeof score !== "number" ||
      typeof tokens !== "number" ||
      typeof truncated !== "boolean"
    ) {
      throw invalid();
    }
    seen.add(index);
    return { index, document, score, tokens, truncated };
  });
}

function nameOf(receipt: ReceiptReport): string {
  return receipt.claims?.modelId ?? "";
}

function serviceError(answer: unknown, status: number): SealedFetchError {
  const error = isRecord(answer) && isRecord(answer.error) ? answer.error : {};
  const code = typeof error.code === "string" ? error.code : `HTTP_${status}`;
  const message =
    typeof error.message === "string" ? error.message : `The enclave answered with status ${status}.`;
  const busy = status === 429 || status >= 500;
  return new SealedFetchError(code, message, busy ? "Try again." : "Change the request.");
}

function parse(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `String.prototype.toWellFormed` of ES2024. */
function wellFormed(value: string): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new TextEncoder().encode(value));
}

function invalid(): SealedFetchError {
  return new SealedFetchError(
    "ANSWER_INVALID",
    "The answer was sealed and signed, but it is not a ranking of the documents.",
    "Update the package, and report it if it stays.",
  );
}

function lacksHashes(): SealedFetchError {
  return new SealedFetchError(
    "RUNTIME_LACKS",
    "Nothing was sent: this runtime has no WebCrypto, with which the proof of each score is verified.",
    "Serve the page over https, or update the runtime.",
  );
}
