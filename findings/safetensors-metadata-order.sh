#!/usr/bin/env bash
# safetensors 0.8.0 (PyPI) writes the entries of `metadata` in an order that changes with each process.
#
# Expected: the same tensors with the same metadata give the same file, since the tensors themselves are written in a fixed order.
# Observed: each process writes other bytes, so a SHA-256 of the file pins one run of `save`, and not its content. With one entry,
# or none, the bytes are the same. Pin the file that was published; do not rebuild it to compare.
#
# Output seen:
#   metadata of 8 entries: more than one file in 6 processes
#   metadata of 1 entry: one file in 6 processes
#   content of all: equal
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet safetensors==0.8.0 numpy==2.4.6

cat > "$folder/save.py" <<'PYTHON'
import sys
import numpy
from safetensors.numpy import save_file

path, entries = sys.argv[1], int(sys.argv[2])
metadata = {f"key{number}": f"value{number}" for number in range(entries)}
save_file({"a": numpy.ones(3, numpy.float32), "b": numpy.zeros(3, numpy.float32)}, path, metadata)
PYTHON

for entries in 8 1; do
  for run in 1 2 3 4 5 6; do
    "$folder/venv/bin/python" "$folder/save.py" "$folder/$entries-$run.safetensors" "$entries"
  done
done

cat > "$folder/compare.py" <<'PYTHON'
import pathlib
import sys
from safetensors import safe_open

folder = pathlib.Path(sys.argv[1])

def read(path):
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name).tolist() for name in file.keys()}
        return sorted(file.metadata().items()), tensors

equal = True
counts = {}
for entries in (8, 1):
    paths = sorted(folder.glob(f"{entries}-*.safetensors"))
    counts[entries] = len({path.read_bytes() for path in paths})
    equal = equal and all(read(path) == read(paths[0]) for path in paths)
print("metadata of 8 entries:", "one file" if counts[8] == 1 else "more than one file", "in 6 processes")
print("metadata of 1 entry:", "one file" if counts[1] == 1 else "more than one file", "in 6 processes")
print("content of all:", "equal" if equal else "different")
sys.exit(not (counts[8] > 1 and counts[1] == 1 and equal))
PYTHON
"$folder/venv/bin/python" "$folder/compare.py" "$folder"
