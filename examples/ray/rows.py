"""Extracts rows and their proofs from a job's output, in the format of `clearseal verify vector`.

    python3 rows.py texts.parquet vectors row-0000042 ...

Writes rows.vectors.jsonl and rows.proofs.jsonl into the current folder.
"""

import json
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq


def main(source: str, output: str, wanted: list[str]) -> None:
    terms = json.loads((Path(output) / "job.json").read_text(encoding="utf-8"))
    texts = look_up(source, [terms["key"], terms["text"]], wanted)
    rows = look_up(output, [terms["key"], "embedding", "tokens", "truncated", "evidence", "proof"], wanted)
    with open("rows.vectors.jsonl", "w", encoding="utf-8") as vectors, open("rows.proofs.jsonl", "w", encoding="utf-8") as proofs:
        for key in wanted:
            row = rows[key]
            read = {name: row[name] for name in ("tokens", "truncated", "embedding")}
            vectors.write(json.dumps({"text": texts[key][terms["text"]], **read}) + "\n")
            proofs.write(row["evidence"] + "\n" + row["proof"] + "\n")


def look_up(path: str, columns: list[str], keys: list[str]) -> dict[str, dict[str, object]]:
    name = columns[0]
    files = sorted(Path(path).glob("block-*.parquet")) if Path(path).is_dir() else path
    table = pq.read_table(files, columns=columns, filters=pc.field(name).cast("string").isin(keys))
    found = {str(row[name]): row for row in table.to_pylist()}
    if missing := set(keys) - set(found):
        sys.exit(f"{path} lacks {len(missing)} of the rows")
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
