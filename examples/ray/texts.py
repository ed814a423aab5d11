"""Writes a Parquet file of short sample texts: `python3 texts.py 200000 texts.parquet`. The same count gives the same file."""

import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

WHO = ["The bank", "A cat", "The court", "Our team", "The recipe", "A storm", "The school", "Überraschend", "東京"]
WHAT = ["raised rates", "sleeps on the sofa", "refused the appeal", "won the match", "needs two eggs", "closed the road"]
WHEN = ["today", "again", "in spring", "after the vote", "before noon", "for the third time"]


def main(count: int, path: str) -> None:
    pick = random.Random(count).choice
    # All different, so that a vector in the wrong row is detected.
    texts = [f"{pick(WHO)} {pick(WHAT)} {pick(WHEN)}, {number}" for number in range(count)]
    keys = [f"row-{number:07}" for number in range(count)]
    pq.write_table(pa.table({"id": keys, "text": texts}), path, row_group_size=10_000)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
