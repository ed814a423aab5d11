#!/usr/bin/env bash
# duckdb 2.0.1, pyarrow 26.0.1 and polars 2.1.0 (PyPI): DuckDB reads no fixed-size list out of a Parquet file, not even its own.
#
# Expected: a column of vectors that is written as a fixed-size list of two floats has the type FLOAT[2], which DuckDB's functions for
# arrays take.
# Observed: Parquet has one kind of list. Arrow keeps the size in the file's metadata (`ARROW:schema`), which DuckDB neither reads nor
# writes: the column has the type FLOAT[], `array_cosine_similarity` does not take it without a cast, and a table of FLOAT[2] that
# DuckDB writes comes back as FLOAT[]. Polars reads an array from Arrow's file, and a list from DuckDB's.
#
# Output seen:
#   DuckDB, file of Arrow: FLOAT[]
#   DuckDB, file of its own FLOAT[2]: FLOAT[]
#   array_cosine_similarity: BinderException
#   array_cosine_similarity after a cast to FLOAT[2]: 1.0
#   Polars, file of Arrow: Array(Float32, shape=(2,))
#   Polars, file of DuckDB: List(Float32)
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0

cat > "$folder/read.py" <<'PYTHON'
import sys
import duckdb
import polars
import pyarrow
import pyarrow.parquet

arrow, own = sys.argv[1] + "/arrow.parquet", sys.argv[1] + "/own.parquet"
vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array([1.0, 0.0], pyarrow.float32()), 2)
pyarrow.parquet.write_table(pyarrow.table({"v": vectors}), arrow)
duckdb.sql(f"copy (select [1, 0]::float[2] as v) to '{own}' (format parquet)")

def type_in_duckdb(file):
    return duckdb.sql(f"select typeof(v) from '{file}'").fetchall()[0][0]

def compare(vector):
    try:
        return duckdb.sql(f"select array_cosine_similarity({vector}, [1, 0]::float[2]) from '{arrow}'").fetchall()[0][0]
    except duckdb.BinderException as error:
        return type(error).__name__

seen = [
    ("DuckDB, file of Arrow", type_in_duckdb(arrow)),
    ("DuckDB, file of its own FLOAT[2]", type_in_duckdb(own)),
    ("array_cosine_similarity", compare("v")),
    ("array_cosine_similarity after a cast to FLOAT[2]", compare("v::float[2]")),
    ("Polars, file of Arrow", str(polars.read_parquet_schema(arrow)["v"])),
    ("Polars, file of DuckDB", str(polars.read_parquet_schema(own)["v"])),
]
for what, value in seen:
    print(f"{what}: {value}")
expected = ["FLOAT[]", "FLOAT[]", "BinderException", 1.0, "Array(Float32, shape=(2,))", "List(Float32)"]
sys.exit([value for _, value in seen] != expected)
PYTHON
"$folder/venv/bin/python" "$folder/read.py" "$folder"
