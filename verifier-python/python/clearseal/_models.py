"""The models of a service, and documents that one of them scored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ._clearseal import Answer
from ._errors import ClearsealError


@dataclass(frozen=True)
class ServedModel:
    """A model that a verified enclave holds, as its manifest describes it."""

    id: str
    """Name, which requests may use."""
    version: str
    """Version of the engine."""
    sha256: str
    """SHA-256 of its files, hex: `model.sha256` of a trust policy that demands it."""
    dimension: int
    """Components of a vector; 1 of a model that scores pairs."""
    max_tokens: int
    """Most tokens of a text that it reads."""
    normalised: bool
    """Whether vectors have unit length."""

    def has_name(self, name: str) -> bool:
        """Whether `name` is a form of this model's name, with or without organisation (`org/name`)."""
        short, long = sorted((self.id, name), key=len)
        return short == long or ("/" not in short and long.endswith("/" + short))


@dataclass(frozen=True)
class RankedDocument:
    """A document and its score."""

    index: int
    """Place among the documents, from 0."""
    document: str
    score: float
    """The higher, the better; a float32."""
    tokens: int
    """Tokens of query and document that the model read."""
    truncated: bool
    """Whether there were more, which the model did not read."""
    proof: str = field(repr=False)
    """The line that proves the score together with `Ranking.evidence`. Its holder can test guesses of the pair."""


@dataclass(frozen=True)
class Ranking:
    """Documents with their scores, the best first."""

    query: str
    results: tuple[RankedDocument, ...]
    evidence: str = field(repr=False)
    """The line of evidence that all proofs share."""
    answer: Answer = field(repr=False)
    """The complete answer, with its receipt."""

    def row(self, result: RankedDocument) -> str:
        """The line of a result in the format of `clearseal rerank`, which `verify_vector` reads."""
        return json.dumps(
            {
                "index": result.index,
                "relevance_score": result.score,
                "query": self.query,
                "document": result.document,
                "tokens": result.tokens,
                "truncated": result.truncated,
            }
        )


def write_request(model: str, query: str, documents: Sequence[str], top_n: int | None) -> bytes:
    """The content of a request to `/v1/rerank`."""
    body: dict[str, Any] = {"model": model, "query": query, "documents": list(documents)}
    if top_n is not None:
        body["top_n"] = top_n
    return json.dumps(body).encode()


def read_ranking(answer: Answer, query: str, documents: Sequence[str], top_n: int | None) -> Ranking:
    """Reads the answer to `write_request`, and compares the root of its items with the one that the enclave signed."""
    if answer.status != 200:
        raise _service_error(answer)
    expected = len(documents) if top_n is None else min(top_n, len(documents))
    try:
        found = [_result(item) for item in json.loads(answer.content)["results"]]
        indices = [index for index, *_ in found]
        if len(found) != expected or len(set(indices)) != expected or not all(0 <= at < len(documents) for at in indices):
            raise ValueError("other documents")
    except (KeyError, TypeError, ValueError):
        raise ClearsealError(
            "ANSWER_INVALID",
            "the answer was sealed and signed, but it is not a ranking of the documents",
            "Update the package, and report it if it stays.",
        ) from None
    evidence, proofs = answer.proofs()
    results = tuple(
        RankedDocument(index, documents[index], score, tokens, truncated, proof)
        for (index, score, tokens, truncated), proof in zip(found, proofs, strict=True)
    )
    return Ranking(query, results, evidence, answer)


def _result(item: Any) -> tuple[int, float, int, bool]:
    read = item["clearseal"]
    index = item["index"]
    if type(index) is not int:
        raise ValueError("not a place")
    return index, float(item["relevance_score"]), int(read["tokens"]), bool(read["truncated"])


def _service_error(answer: Answer) -> ClearsealError:
    busy = answer.status == 429 or answer.status >= 500
    remedy = "Try again." if busy else "Change the request."
    try:
        error = json.loads(answer.content)["error"]
        return ClearsealError(str(error["code"]), str(error["message"]), remedy)
    except (KeyError, TypeError, ValueError):
        return ClearsealError(f"HTTP_{answer.status}", f"the enclave answered with status {answer.status}", remedy)
