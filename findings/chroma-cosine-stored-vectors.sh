#!/usr/bin/env bash
# chromadb 1.5.9 (PyPI) does not return the vectors that were added to a collection with cosine distance.
#
# Expected: `get` returns the float32 numbers that `add` was given; the vectors below have unit length already.
# Observed: about a tenth of the numbers differ in their last bit, so a signature or hash over a vector no longer fits the stored
# one. With inner product (`ip`), which ranks unit vectors alike, every number comes back unchanged.
#
# Output seen:
#   cosine: numbers that changed: some; largest difference below 1e-6: yes
#   ip: numbers that changed: none
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet chromadb==1.5.9 numpy==2.4.6

cat > "$folder/compare.py" <<'PYTHON'
import sys
import chromadb
import numpy

vectors = numpy.random.default_rng(7).standard_normal((50, 384)).astype(numpy.float32)
vectors = (vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)).astype(numpy.float32)
ids = [str(row) for row in range(len(vectors))]
client = chromadb.EphemeralClient()

def read_back(space):
    collection = client.create_collection(f"space-{space}", metadata={"hnsw:space": space})
    collection.add(ids=ids, embeddings=vectors)
    found = collection.get(ids=ids, include=["embeddings"])
    rows = dict(zip(found["ids"], found["embeddings"]))
    return numpy.array([rows[row] for row in ids], dtype=numpy.float32)

cosine, inner = read_back("cosine"), read_back("ip")
changed = (cosine != vectors).any()
small = numpy.abs(cosine - vectors).max() < 1e-6
kept = (inner == vectors).all()
print("cosine: numbers that changed:", "some" if changed else "none", end="; ")
print("largest difference below 1e-6:", "yes" if small else "no")
print("ip: numbers that changed:", "none" if kept else "some")
sys.exit(not (changed and small and kept))
PYTHON
"$folder/venv/bin/python" "$folder/compare.py" 2>/dev/null
