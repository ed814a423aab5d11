"""One job: which rows make a block, which blocks are there, and how one comes there whole."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


# Bytes of one text that the service accepts (docs/PROTOCOL.md §3). How much of it the model reads is in `truncated`.
LONGEST = 64 << 10
# Columns of the output, beside the key.
OURS = ("embedding", "tokens", "truncated", "evidence", "proof")


class JobError(Exception):
    """The job cannot be done as it was asked for. Holds nothing of a text."""


@dataclass(frozen=True)
class Job:
    """What every worker needs to know. Small, and without a text: it goes through the engine."""

    url: str
    policy: str
    """The trust policy itself, so that no worker needs the file."""
    accept_simulated: bool
    model: str
    source: str
    """Parquet file. Each worker reads its rows from there, so that no text goes through the engine or lies in its store."""
    key: str
    text: str
    output: str
    block_rows: int
    total_rows: int

    @property
    def blocks(self) -> range:
        return range(-(-self.total_rows // self.block_rows))

    def rows_of(self, block: int) -> range:
        start = block * self.block_rows
        return range(start, min(start + self.block_rows, self.total_rows))

    def path(self, block: int) -> Path:
        return Path(self.output) / f"block-{block:06}.parquet"

    def missing(self) -> list[int]:
        """A block whose file is there is done."""
        return [block for block in self.blocks if not self.path(block).exists()]

    def read(self, block: int) -> pa.Table:
        """Key and text of a block's rows, from the row groups that hold them."""
        wanted = self.rows_of(block)
        with pq.ParquetFile(self.source) as file:
            groups, first, end = [], None, 0
            for group in range(file.num_row_groups):
                start, end = end, end + file.metadata.row_group(group).num_rows
                if start < wanted.stop and end > wanted.start:
                    groups.append(group)
                    first = start if first is None else first
            table = file.read_row_groups(groups, columns=[self.key, self.text])
        return table.slice(wanted.start - first, len(wanted))

    def write(self, block: int, table: pa.Table) -> None:
        """All of a block or nothing, and once: the file has its name only when it is on the disk, and the first to have it stays."""
        path = self.path(block)
        temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
        try:
            with temporary.open("wb") as file:
                # Vectors do not compress; a dictionary holds each line of evidence once.
                pq.write_table(table, file, compression="zstd", use_dictionary=["evidence"])
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)
        except FileExistsError:
            pass  # Another worker was told to do the same, or one outlived its driver.
        finally:
            temporary.unlink(missing_ok=True)
        sync(path.parent)


@contextmanager
def claim(job: Job) -> Iterator[None]:
    """Makes the output folder, or takes up what a killed job left there. Until the end of the block nobody else works on it.

    Raises:
        JobError: Another process works on it, or it was begun with another file or other blocks.
    """
    folder = Path(job.output)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "job.json").open("a+", encoding="utf-8") as claimed:
        try:
            # The kernel gives it back when this process ends, however it ends.
            fcntl.flock(claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobError(f"another process works on {folder}") from None
        take_up(job, claimed)
        remove_halves(folder)
        yield
        remove_halves(folder)


def take_up(job: Job, claimed: TextIO) -> None:
    """Compares the job with that which was begun here, or writes down that this one is."""
    with open(job.source, "rb") as file:
        source = file_digest(file, "sha256").hexdigest()
    names = ("model", "key", "text", "block_rows", "total_rows")
    terms = {"source_sha256": source, **{name: getattr(job, name) for name in names}}
    claimed.seek(0)
    said = claimed.read()
    # What is cut off was written by a process that was killed before its first block.
    if said.endswith("\n"):
        begun = json.loads(said)
        if other := [name for name in terms if begun.get(name) != terms[name]]:
            raise JobError(f"{job.output} was begun with another {', '.join(other)}; choose another folder")
        return
    check(job)
    claimed.truncate(0)
    claimed.write(json.dumps(terms) + "\n")
    claimed.flush()
    os.fsync(claimed.fileno())
    sync(Path(job.output))


def remove_halves(folder: Path) -> None:
    """What a worker was writing when it was killed."""
    for half in folder.glob(".block-*"):
        half.unlink(missing_ok=True)


def rows_in(source: str) -> int:
    return pq.read_metadata(source).num_rows


def check(job: Job) -> None:
    """One vector for each row asks for a key for each row, and a text."""
    schema = pq.read_schema(job.source)
    for column in (job.key, job.text):
        if column not in schema.names:
            raise JobError(f"there is no column `{column}`")
    if job.key in OURS:
        raise JobError(f"column `{job.key}` has the name of one that is written; rename it")
    if schema.field(job.text).type not in (pa.string(), pa.large_string()):
        raise JobError(f"column `{job.text}` is not of strings")
    keys = pq.read_table(job.source, columns=[job.key])[job.key]
    if keys.null_count or pc.count_distinct(keys).as_py() != len(keys):
        raise JobError(f"column `{job.key}` is no key: a value is missing or there twice")
    row = 0
    with pq.ParquetFile(job.source) as file:
        for batch in file.iter_batches(columns=[job.text]):
            sizes = pc.fill_null(pc.binary_length(batch.column(0)), 0)
            wrong = pc.index(pc.and_(pc.greater(sizes, 0), pc.less_equal(sizes, LONGEST)), False).as_py()
            if wrong >= 0:
                raise JobError(f"the text of row {row + wrong} is missing, or longer than {LONGEST} bytes")
            row += len(batch)


def sync(folder: Path) -> None:
    """Makes the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
