"""One worker, for any engine: embeds blocks of rows over a verified connection."""

from __future__ import annotations

import json
import random
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import clearseal
import numpy as np
import pyarrow as pa

from job import Job, JobError

# Maximum number and total size of texts in one request. A request has at most 4 MiB, and JSON may write one byte as six.
MAX_TEXTS, MAX_BYTES = 256, 512 << 10
# Seconds for which a worker retries without an answer, and the longest pause between attempts.
RETRY_SECONDS, MAX_PAUSE = 300.0, 5.0
# Codes of a different replica, or of one with new keys: the next attempt verifies again.
TRANSIENT = {"KEY_UNKNOWN_TWICE", "DOCUMENT_UNKNOWN", "KEYS_EXPIRED"}


@dataclass(frozen=True)
class Item:
    """One embedded text."""

    vector: bytes
    """float32, little-endian."""
    tokens: int
    """Tokens read, special ones included."""
    truncated: bool
    """Whether the text had more tokens."""

    @classmethod
    def of(cls, row: dict[str, Any]) -> Item:
        read = row["clearseal"]
        return cls(b64decode(row["embedding"]), read["tokens"], read["truncated"])


class Embedder:
    """One verified connection, with one request in flight at a time, which bounds the fleet's queue."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @cached_property
    def _session(self) -> clearseal.Session:
        job = self._job
        # If the policy does not accept the enclave, `clearseal.Refused` ends the job; only a nonce has been sent by then.
        return clearseal.connect(job.url, policy=job.policy, allow_simulated=job.accept_simulated)

    def embed(self, texts: Sequence[str]) -> tuple[list[Item], list[str], list[str]]:
        """Returns, for each text, its vector, the line of evidence and the line of its proof."""
        items: list[Item] = []
        evidence: list[str] = []
        proofs: list[str] = []
        for some in requests(texts):
            answer = with_retries(lambda some=some: self._ask(some))
            # Returns one proof per text, or raises.
            shared, lines = answer.proofs()
            items += map(Item.of, json.loads(answer.content)["data"])
            evidence += [shared] * len(lines)
            proofs += lines
        return items, evidence, proofs

    def _ask(self, texts: Sequence[str]) -> clearseal.Answer:
        body = {"model": self._job.model, "input": texts, "encoding_format": "base64"}
        answer = self._session.fetch(
            "POST",
            "/v1/embeddings",
            headers={"content-type": "application/json"},
            content=json.dumps(body, ensure_ascii=False).encode(),
        )
        if answer.status in (429, 503):
            raise Busy(f"the fleet is busy (status {answer.status})")
        if answer.status != 200:
            # Only the code: a message may quote the request.
            raise JobError(f"the enclave refused a request: {json.loads(answer.content)['error']['code']}")
        return answer


class Worker:
    """A class for `map_batches`: created once per actor, then called with block numbers; reads, embeds and writes each block."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._embedder = Embedder(job)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns an error message, or an empty string, per block. An exception would make the engine retry and log its context."""
        return {"block": batch["block"], "failed": np.array([self._finish(int(block)) for block in batch["block"]])}

    def _finish(self, block: int) -> str:
        job, rows = self._job, self._job.rows_of(block)
        # Engines may run a task more than once.
        if job.path(block).exists():
            return ""
        source = job.read(block)
        try:
            items, evidence, proofs = self._embedder.embed(source[job.text].to_pylist())
        except (JobError, Busy, clearseal.ClearsealError) as error:
            return f"rows {rows.start} to {rows.stop - 1}: {error}"
        job.write(block, table(job.key, source[job.key], items, evidence, proofs))
        return ""


_thread = threading.local()


def finish(block: int, job: Job) -> dict[str, Any]:
    """`Worker` for engines whose tasks are functions. Each thread creates its worker once."""
    if getattr(_thread, "job", None) != job:
        _thread.worker, _thread.job = Worker(job), job
    return _thread.worker({"block": np.array([block])})


def table(key: str, keys: pa.ChunkedArray, items: Sequence[Item], evidence: Sequence[str], proofs: Sequence[str]) -> pa.Table:
    """Output rows, in the order of the source. The bits of the vectors are those that the enclave signed."""
    numbers = np.frombuffer(b"".join(item.vector for item in items), dtype="<f4")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), len(numbers) // len(items))
    return pa.table(
        {
            key: keys,
            "embedding": vectors,
            "tokens": pa.array([item.tokens for item in items], pa.uint32()),
            "truncated": [item.truncated for item in items],
            "evidence": evidence,
            "proof": proofs,
        }
    )


def requests(texts: Sequence[str]) -> Iterator[list[str]]:
    """Splits the texts, in order, into requests."""
    some: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if some and (len(some) == MAX_TEXTS or size + length > MAX_BYTES):
            yield some
            some, size = [], 0
        some.append(text)
        size += length
    if some:
        yield some


class Busy(Exception):
    """The fleet has no capacity at the moment."""


T = TypeVar("T")


def with_retries(ask: Callable[[], T]) -> T:
    """Retries transient failures."""
    end = time.monotonic() + RETRY_SECONDS
    pause = 0.05
    while True:
        try:
            return ask()
        except (Busy, clearseal.ClearsealError) as error:
            if not is_transient(error) or time.monotonic() > end:
                raise
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, MAX_PAUSE)


def is_transient(error: Exception) -> bool:
    if isinstance(error, clearseal.Unreachable):
        return error.status is None or error.status == 429 or error.status >= 500
    return isinstance(error, Busy) or getattr(error, "code", None) in TRANSIENT
