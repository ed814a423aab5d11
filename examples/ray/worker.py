"""What one worker does, whichever engine runs it: a verified connection, and blocks of rows embedded over it."""

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

# Texts of one request, and their bytes. A request has at most 4 MiB, and JSON may write one byte as six.
TEXTS, BYTES = 256, 512 << 10
# Seconds for which a worker asks again where there is no answer, and the longest pause in between.
PATIENCE, LONGEST_PAUSE = 300.0, 5.0
# Another replica answered, or the same one with new keys: the next attempt verifies again.
TRANSIENT = {"KEY_UNKNOWN_TWICE", "DOCUMENT_UNKNOWN", "KEYS_EXPIRED"}


@dataclass(frozen=True)
class Item:
    """One embedded text."""

    vector: bytes
    """float32, little-endian."""
    tokens: int
    """Tokens read, special ones included."""
    truncated: bool
    """There were more."""

    @classmethod
    def of(cls, row: dict[str, Any]) -> Item:
        read = row["clearseal"]
        return cls(b64decode(row["embedding"]), read["tokens"], read["truncated"])


class Embedder:
    """One verified connection. Has one request under way at a time, which bounds the texts that wait in the fleet."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @cached_property
    def _session(self) -> clearseal.Session:
        job = self._job
        # Nothing but a nonce is sent to what the policy does not accept: `clearseal.Refused` ends the job.
        return clearseal.connect(job.url, policy=job.policy, allow_simulated=job.accept_simulated)

    def embed(self, texts: Sequence[str]) -> tuple[list[Item], list[str], list[str]]:
        """For each text its vector, the line of evidence, and the line of its proof."""
        items: list[Item] = []
        evidence: list[str] = []
        proofs: list[str] = []
        for some in requests(texts):
            answer = patiently(lambda some=some: self._ask(some))
            # One proof for each text, or an exception: rows and texts are equally many.
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
            # The code alone: a message may quote what was sent.
            raise JobError(f"the enclave refused a request: {json.loads(answer.content)['error']['code']}")
        return answer


class Worker:
    """A class for `map_batches`: made once for each actor, then called with numbers of blocks, which it reads, embeds and writes."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._embedder = Embedder(job)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """For each block what went wrong, or nothing. An engine would start again what raises, and log where it was."""
        return {"block": batch["block"], "failed": np.array([self._finish(int(block)) for block in batch["block"]])}

    def _finish(self, block: int) -> str:
        job, rows = self._job, self._job.rows_of(block)
        # An engine repeats what it is not sure of.
        if job.path(block).exists():
            return ""
        source = job.read(block)
        try:
            items, evidence, proofs = self._embedder.embed(source[job.text].to_pylist())
        except (JobError, Busy, clearseal.ClearsealError) as error:
            return f"rows {rows.start} to {rows.stop - 1}: {error}"
        job.write(block, table(job.key, source[job.key], items, evidence, proofs))
        return ""


_mine = threading.local()


def finish(block: int, job: Job) -> dict[str, Any]:
    """The same for engines whose tasks are functions: each thread makes its worker once."""
    if getattr(_mine, "job", None) != job:
        _mine.worker, _mine.job = Worker(job), job
    return _mine.worker({"block": np.array([block])})


def table(key: str, keys: pa.ChunkedArray, items: Sequence[Item], evidence: Sequence[str], proofs: Sequence[str]) -> pa.Table:
    """Rows as they are written, in the order of the source. The vectors' bits are those that the enclave signed."""
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
    """The texts in order, in portions that one request holds."""
    some: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if some and (len(some) == TEXTS or size + length > BYTES):
            yield some
            some, size = [], 0
        some.append(text)
        size += length
    if some:
        yield some


class Busy(Exception):
    """The fleet has no room now."""


T = TypeVar("T")


def patiently(ask: Callable[[], T]) -> T:
    """Asks again where a moment may help: a job of hours should not end with a balancer that is restarted."""
    end = time.monotonic() + PATIENCE
    pause = 0.05
    while True:
        try:
            return ask()
        except (Busy, clearseal.ClearsealError) as error:
            if not is_transient(error) or time.monotonic() > end:
                raise
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, LONGEST_PAUSE)


def is_transient(error: Exception) -> bool:
    if isinstance(error, clearseal.Unreachable):
        return error.status is None or error.status == 429 or error.status >= 500
    return isinstance(error, Busy) or getattr(error, "code", None) in TRANSIENT
