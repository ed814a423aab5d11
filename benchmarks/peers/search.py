"""Exact searches of our crate `scan` and of other libraries, in turns.

    cargo build --release -p scan --example time_search
    pip install -r search-requirements.txt
    python search.py PROGRAM [--rows 1000000] [--dimensions 384] [--threads 2] [--turns 9] [--only NAME,NAME]

PROGRAM is the built example. Vectors and queries are random, of unit length, from a fixed seed. In each turn every contender
answers the same queries once; a turn before the first is not counted, except for a contender that takes seconds and answers
only once. The output has, for each contender, its median time, and the median and the quartiles of the ratios of its time to
ours in the same turn: above 1, ours is faster. `read` reads as many bytes on all threads and does nothing else. A contender
that stores f32 and finds other rows is reported; the others, which round in another way, are only compared by time.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

K = 10
QUERIES = 256
# Contenders that take more milliseconds answer once.
SLOW = 8000
PRECISIONS = ["f32", "f16", "int8"]


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--only", default="")
    parser.add_argument("--huge-pages", action="store_true", help="for ours too: NumPy asks the kernel for them")
    return parser.parse_args()


def timed(search):
    """Wraps a function from queries to the rows of the first one's result."""

    def answer(queries):
        begun = time.perf_counter()
        found = search(queries)
        return (time.perf_counter() - begun) * 1e3, [int(row) for row in found]

    return answer


class Ours:
    """The example, as a process with a line protocol."""

    def __init__(self, given, vectors, queries):
        numbers = [given.rows, given.dimensions, given.threads]
        tunables = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} if given.huge_pages else {}
        self.process = subprocess.Popen(
            [given.program, *map(str, numbers), vectors, queries],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **tunables},
            text=True,
        )
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError("the program did not start")

    def ask(self, *question):
        print(*question, file=self.process.stdin, flush=True)
        ms, _, rows = self.process.stdout.readline().strip().partition(" ")
        return float(ms), [int(row) for row in rows.split(",") if row]

    def contenders(self):
        for precision in PRECISIONS:
            yield f"ours-{precision}", lambda first, count, p=precision: self.ask("search", p, first, count, K, "best")
            yield f"read-{precision}", lambda _first, _count, p=precision: self.ask("read", p)
            yield f"avx2-{precision}", lambda first, count, p=precision: self.ask("search", p, first, count, K, "avx2")


def peers(given, rows):
    """Each peer's name, and a function that makes its search."""
    return {
        "faiss-f32": lambda: faiss_index(given, rows, "IndexFlatIP"),
        "faiss-f16": lambda: faiss_index(given, rows, "QT_fp16"),
        "faiss-int8": lambda: faiss_index(given, rows, "QT_8bit"),
        "faiss-direct-int8": lambda: faiss_index(given, as_codes(rows), "QT_8bit_direct_signed"),
        "usearch-f32": lambda: usearch_exact(given, rows, "float32"),
        "usearch-f16": lambda: usearch_exact(given, rows, "float16"),
        "usearch-int8": lambda: usearch_exact(given, as_codes(rows), "int8"),
        "numpy-f32": lambda: numpy_product(rows),
        "duckdb-f32": lambda: duckdb_product(given, rows),
    }


def as_codes(rows):
    import numpy

    scale = 127 / float(numpy.abs(rows[:10_000]).max())
    return numpy.clip(numpy.rint(rows * numpy.float32(scale)), -127, 127)


def faiss_index(given, rows, kind):
    import faiss

    faiss.omp_set_num_threads(given.threads)
    if kind == "IndexFlatIP":
        index = faiss.IndexFlatIP(given.dimensions)
    else:
        kind = getattr(faiss.ScalarQuantizer, kind)
        index = faiss.IndexScalarQuantizer(given.dimensions, kind, faiss.METRIC_INNER_PRODUCT)
        index.train(rows[:20_000])
    for first in range(0, len(rows), 100_000):
        index.add(rows[first : first + 100_000])
    return lambda queries: index.search(queries, K)[1][0]


def usearch_exact(given, rows, kind):
    from usearch.index import MetricKind, search

    rows = rows.astype(kind)

    def answer(queries):
        if kind == "int8":
            queries = as_codes(queries)
        queries = queries.astype(kind)
        return search(rows, queries, K, MetricKind.IP, exact=True, threads=given.threads).keys.reshape(-1)[:K]

    return answer


def numpy_product(rows):
    import numpy

    def answer(queries):
        scores = queries @ rows.T
        best = numpy.argpartition(-scores, K, axis=1)[0, :K]
        return best[numpy.argsort(-scores[0, best])]

    return answer


def duckdb_product(given, rows):
    import duckdb
    import pyarrow

    connection = duckdb.connect()
    connection.execute(f"set threads = {given.threads}")
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), given.dimensions)
    table = pyarrow.table({"id": pyarrow.array(range(len(rows))), "vector": vectors})
    connection.register("given", table)
    connection.execute("create table vectors as select * from given")
    connection.unregister("given")
    best = f"""select id from vectors
        order by array_inner_product(vector, ?::float[{given.dimensions}]) desc limit {K}"""

    def answer(queries):
        found = [connection.execute(best, [query.tolist()]).fetchall() for query in queries]
        return [row for (row,) in found[0]]

    return answer


def write_unit_vectors(path, generator, count, dimensions):
    import numpy

    with open(path, "wb") as file:
        for first in range(0, count, 100_000):
            shape = (min(100_000, count - first), dimensions)
            vectors = generator.standard_normal(shape, dtype=numpy.float32)
            file.write((vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)).tobytes())
    return numpy.fromfile(path, numpy.float32).reshape(-1, dimensions)


def take_turns(contenders, count, turns):
    """Returns the times of each contender, and each one's last rows."""
    times = {name: [] for name in contenders}
    rows = {}
    for turn in range(turns + 1):
        first = turn * count % (QUERIES - count + 1)
        for name, answer in contenders.items():
            if any(ms > SLOW for ms in times[name]):
                continue
            ms, rows[name] = answer(first, count)
            if turn > 0 or ms > SLOW:
                times[name].append(ms)
    return times, rows


def report(count, times, rows):
    for name, own in times.items():
        precision = name.rsplit("-")[-1]
        line = f"{count:3} queries  {name:18} {statistics.median(own):9.2f} ms"
        ours = times.get(f"ours-{precision}")
        if ours and len(own) == 1:
            line += f"   {own[0] / ours[0]:6.2f} × ours, once"
        elif ours:
            ratios = [theirs / mine for theirs, mine in zip(own, ours)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            line += f"   {middle:6.2f} × ours ({low:.2f} to {high:.2f})"
        print(line, flush=True)
        expected = rows.get("ours-f32")
        same_turn = len(own) == len(times.get("ours-f32", []))
        if precision == "f32" and rows[name] and same_turn and rows[name] != expected:
            print(f"            {name} found {rows[name]} instead of {expected}")


def main():
    given = options()
    for variable in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"]:
        os.environ[variable] = str(given.threads)
    import numpy

    generator = numpy.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ["vectors", "queries"]]
        rows = write_unit_vectors(files[0], generator, given.rows, given.dimensions)
        queries = write_unit_vectors(files[1], generator, QUERIES, given.dimensions)
        ours = Ours(given, *files)
    names = [name for name in given.only.split(",") if name]

    def chosen(name):
        return not names or any(name.startswith(start) for start in names)

    contenders = {name: answer for name, answer in ours.contenders() if chosen(name)}
    for name, make in peers(given, rows).items():
        if chosen(name):
            search = timed(make())
            contenders[name] = lambda first, count, search=search: search(queries[first : first + count])
    print("load of the machine:", *os.getloadavg())
    for count in map(int, given.batches.split(",")):
        report(count, *take_turns(contenders, count, given.turns))
    print("load of the machine:", *os.getloadavg())


if __name__ == "__main__":
    main()
