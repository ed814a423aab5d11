"""Embeds a Parquet file over a fleet of verified enclaves, and writes one vector and proof per row into a folder of Parquet files.

    python3 embed.py texts.parquet vectors --policy trust-policy.json --url https://embed.example

A restarted job continues where it stopped.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import Any

import clearseal

from job import Job, JobError, claim, rows_in
from worker import Worker, finish


def with_ray(job: Job, blocks: list[int], workers: int) -> Iterator[dict[str, Any]]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    address = os.environ.get("RAY_ADDRESS", "local")
    # Ray's store only holds block numbers, so its smallest size is enough.
    here = {"object_store_memory": 100 << 20, "include_dashboard": False} if address == "local" else {}
    with ray.init(address, log_to_driver=False, logging_level="error", **here):
        numbers = ray.data.from_items([{"block": block} for block in blocks], override_num_blocks=len(blocks))
        # Workers mostly wait for the network.
        pool = {"compute": ray.data.ActorPoolStrategy(size=workers), "num_cpus": 0.1, "batch_size": 1}
        yield from numbers.map_batches(Worker, fn_constructor_args=[job], **pool).iter_batches(batch_size=1)


def with_dask(job: Job, blocks: list[int], workers: int) -> Iterator[dict[str, Any]]:
    from dask import distributed

    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    here = {} if address else {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.Client(address, **here) as client:
        yield from (done.result() for done in distributed.as_completed(client.map(finish, blocks, job=job)))


def with_threads(job: Job, blocks: list[int], workers: int) -> Iterator[dict[str, Any]]:
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(finish, blocks, repeat(job))


ENGINES = {"ray": with_ray, "dask": with_dask, "plain": with_threads}


def main() -> int:
    options = arguments().parse_args()
    try:
        job = read_job(options)
        with claim(job):
            # Verified before any worker starts, so that a refusal is reported once.
            with clearseal.connect(job.url, policy=job.policy, allow_simulated=job.accept_simulated) as session:
                if session.verdict == "simulated":
                    note("SIMULATED: this enclave proves nothing about hardware. Send nothing private.")
            missing = job.missing()
            progress = Progress(job, missing)
            workers = min(options.workers, len(missing))
            with closing(ENGINES[options.engine](job, missing, workers)) as results:
                # Do not start an engine if no block is missing.
                for done in results if missing else ():
                    progress.count(done)
            if left := job.missing():
                raise JobError(f"{len(left)} blocks are still missing; start the job again")
    except (JobError, OSError) as error:
        note(str(error))
        return 2
    except clearseal.ClearsealError as error:
        note(str(error))
        return 1
    print(f"{job.total_rows} rows in {len(job.blocks)} blocks")
    return 0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Embeds a Parquet file over verified enclaves, with a proof for each row.")
    parser.add_argument("source", help="Parquet file with a key and a text in each row")
    parser.add_argument("output", help="folder of Parquet files, one per block of rows; existing blocks are skipped")
    parser.add_argument("--policy", required=True, help="trust policy, from a source that you trust")
    parser.add_argument("--accept-simulated", action="store_true", help="also accept a simulated enclave, which proves nothing")
    parser.add_argument("--url", default="http://127.0.0.1:8787", help="address of the service (%(default)s)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="model (%(default)s)")
    parser.add_argument("--key", default="id", help="column with the row's key (%(default)s)")
    parser.add_argument("--text", default="text", help="column to embed (%(default)s)")
    parser.add_argument("--engine", choices=ENGINES, default="ray", help="engine that runs the workers (%(default)s)")
    parser.add_argument(
        "--workers", type=positive, default=4, help="connections, each with one request in flight (%(default)s)"
    )
    parser.add_argument(
        "--block-rows", type=positive, default=2000, help="rows per output file, which a killed worker has to repeat (%(default)s)"
    )
    return parser


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def read_job(options: argparse.Namespace) -> Job:
    return Job(
        url=options.url,
        policy=Path(options.policy).read_text(encoding="utf-8"),
        accept_simulated=options.accept_simulated,
        model=options.model,
        source=str(Path(options.source).resolve()),
        key=options.key,
        text=options.text,
        output=str(Path(options.output).resolve()),
        block_rows=options.block_rows,
        total_rows=rows_in(options.source),
    )


class Progress:
    """Updates one line on a terminal, otherwise prints a line every ten seconds. Never shows a row's content."""

    def __init__(self, job: Job, missing: list[int]) -> None:
        self._job, self._total = job, job.total_rows
        self._before = self._rows = job.total_rows - sum(len(job.rows_of(block)) for block in missing)
        self._start = self._shown = time.monotonic()
        if self._before:
            note(f"{self._before} of {self._total} rows are already done")

    def count(self, done: dict[str, Any]) -> None:
        for block, failed in zip(done["block"], done["failed"], strict=True):
            if failed:
                raise JobError(str(failed))
            self._rows += len(self._job.rows_of(int(block)))
        now = time.monotonic()
        last = self._rows == self._total
        if not (last or sys.stderr.isatty() or now - self._shown >= 10):
            return
        self._shown = now
        rate = (self._rows - self._before) / (now - self._start)
        left = (self._total - self._rows) / rate / 60
        end = "\r" if sys.stderr.isatty() and not last else "\n"
        print(f"{self._rows} of {self._total} rows, {rate:.0f} per second, {left:.0f} min left  ", end=end, file=sys.stderr, flush=True)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
