"""One job: its blocks of rows, which of them are done, and how a block is written atomically."""

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


# Maximum size of a text that the service accepts (docs/PROTOCOL.md §3). `truncated` says whether the model read all of it.
MAX_TEXT_BYTES = 64 << 10
# Columns of the output, in addition to the key.
OUTPUT_COLUMNS = ("embedding", "tokens", "truncated", "evidence", "proof")


class JobError(Exception):
    """The job cannot be done as requested. Never contains a text."""


@dataclass(frozen=True)
class Job:
    """Settings for every worker. Small and without texts, because they go through the engine."""

    url: str
    policy: str
    """The trust policy itself, so that no worker needs the file."""
    accept_simulated: bool
    model: str
    source: str
    """Parquet file. Each worker reads its rows from it, so that no text goes through the engine or its store."""
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
        """Blocks without a file."""
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
        """Writes a block atomically and once: the file gets its name after it is on disk, and is never replaced."""
        path = self.path(block)
        temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
        try:
            with temporary.open("wb") as file:
                # Vectors do not compress; a dictionary stores each line of evidence once.
                pq.write_table(table, file, compression="zstd", use_dictionary=["evidence"])
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)
        except FileExistsError:
            pass  # Another worker had the same block, or one outlived its driver.
        finally:
            temporary.unlink(missing_ok=True)
        sync(path.parent)


@contextmanager
def claim(job: Job) -> Iterator[None]:
    """Creates the output folder, or continues a stopped job in it, and locks it until the end of the `with` block.

    Raises:
        JobError: Another process works on it, or it was begun with another file or other settings.
    """
    folder = Path(job.output)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "job.json").open("a+", encoding="utf-8") as claimed:
        try:
            # The kernel releases the lock when this process ends.
            fcntl.flock(claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobError(f"another process works on {folder}") from None
        compare_or_record(job, claimed)
        remove_partial_files(folder)
        yield
        remove_partial_files(folder)


def compare_or_record(job: Job, claimed: TextIO) -> None:
    """Compares the job with the one that was begun in this folder, or records this one."""
    with open(job.source, "rb") as file:
        source = file_digest(file, "sha256").hexdigest()
    names = ("model", "key", "text", "block_rows", "total_rows")
    terms = {"source_sha256": source, **{name: getattr(job, name) for name in names}}
    claimed.seek(0)
    recorded = claimed.read()
    # An incomplete line is from a process that was killed before its first block.
    if recorded.endswith("\n"):
        begun = json.loads(recorded)
        if other := [name for name in terms if begun.get(name) != terms[name]]:
            raise JobError(f"{job.output} was begun with another {', '.join(other)}; choose another folder")
        return
    check(job)
    claimed.truncate(0)
    claimed.write(json.dumps(terms) + "\n")
    claimed.flush()
    os.fsync(claimed.fileno())
    sync(Path(job.output))


def remove_partial_files(folder: Path) -> None:
    """Removes files that a worker had not finished when it was killed."""
    for path in folder.glob(".block-*"):
        path.unlink(missing_ok=True)


def rows_in(source: str) -> int:
    return pq.read_metadata(source).num_rows


def check(job: Job) -> None:
    """Checks that every row has a unique key and a text."""
    schema = pq.read_schema(job.source)
    for column in (job.key, job.text):
        if column not in schema.names:
            raise JobError(f"there is no column `{column}`")
    if job.key in OUTPUT_COLUMNS:
        raise JobError(f"column `{job.key}` has the name of an output column; rename it")
    if schema.field(job.text).type not in (pa.string(), pa.large_string()):
        raise JobError(f"column `{job.text}` does not contain strings")
    keys = pq.read_table(job.source, columns=[job.key])[job.key]
    if keys.null_count or pc.count_distinct(keys).as_py() != len(keys):
        raise JobError(f"column `{job.key}` is not a key: a value is missing or occurs twice")
    row = 0
    with pq.ParquetFile(job.source) as file:
        for batch in file.iter_batches(columns=[job.text]):
            sizes = pc.fill_null(pc.binary_length(batch.column(0)), 0)
            wrong = pc.index(pc.and_(pc.greater(sizes, 0), pc.less_equal(sizes, MAX_TEXT_BYTES)), False).as_py()
            if wrong >= 0:
                raise JobError(f"the text of row {row + wrong} is missing, or longer than {MAX_TEXT_BYTES} bytes")
            row += len(batch)


def sync(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
