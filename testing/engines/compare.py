"""Compares engines with Clearseal's: `python compare.py OURS OTHER…`, each the OUT of embed.py, embed.mjs or ours.py.

Prints a row of a Markdown table for each: texts of `hard` with other tokens; least and median cosine over `queries` and `hard`; and the
fraction of top-10 neighbours in `rows` that changes, if the index is of Clearseal and the query of the other engine, and the reverse.
"""

from __future__ import annotations

import json
import pathlib
import sys

import numpy

SETS = ("hard", "queries", "rows")


def read(out: str) -> tuple[dict[str, numpy.ndarray], dict]:
    facts = json.loads(pathlib.Path(f"{out}.json").read_text())
    if pathlib.Path(f"{out}.npz").exists():
        return dict(numpy.load(f"{out}.npz")), facts
    rows = {name: numpy.fromfile(f"{out}.{name}.f32", dtype=numpy.float32).reshape(-1, 384) for name in SETS}
    return rows, facts


def nearest(index: numpy.ndarray, queries: numpy.ndarray) -> numpy.ndarray:
    return numpy.argsort(-(queries @ index.T), axis=1, kind="stable")[:, :10]


def changed(before: numpy.ndarray, after: numpy.ndarray) -> float:
    kept = sum(len(set(a) & set(b)) for a, b in zip(before, after, strict=True))
    return 1 - kept / before.size


def main() -> None:
    ours, facts = read(sys.argv[1])
    before = nearest(ours["rows"], ours["queries"])
    print(f"| engine | other tokens of {len(ours['hard'])} | cosine of {len(ours['queries'])} sentences: least, median |", end="")
    print(f" of {len(ours['hard'])} hard texts: least | neighbours changed, of {len(ours['rows'])} rows: our index, its index, both its |")
    print("| --- | --- | --- | --- | --- |")
    for out in sys.argv[2:]:
        rows, other = read(out)
        cosine = {name: (ours[name] * rows[name]).sum(axis=1) for name in SETS[:2]}
        tokens = other.get("tokens")
        differ = "not shown"
        if tokens:
            # An engine may show tokens without the two special ones.
            pairs = zip(facts["tokens"], tokens, strict=True)
            differ = str(sum(a != b and a[1:-1] != b for a, b in pairs))
        moved = [
            changed(before, nearest(ours["rows"], rows["queries"])),
            changed(before, nearest(rows["rows"], ours["queries"])),
            changed(before, nearest(rows["rows"], rows["queries"])),
        ]
        missing = int(numpy.isnan(cosine["hard"]).sum())
        name = " ".join(f"{key} {value}" for key, value in other["versions"].items())
        print(
            f"| {pathlib.Path(out).name}: {name} | {differ} | {cosine['queries'].min():.7f}, {numpy.median(cosine['queries']):.7f}"
            f" | {numpy.nanmin(cosine['hard']):.6f}{f', {missing} without a vector' if missing else ''}"
            f" | {', '.join(f'{part:.2%}' for part in moved)} |"
        )


main()
