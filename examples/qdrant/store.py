"""Fills Qdrant (in its local mode) with rows and their proofs, searches it, and writes the found row and its proof."""

import json

from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams


def lines(name):
    with open(name, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


rows = lines("vectors.jsonl")
# A line of evidence precedes the proofs that refer to it.
evidence, proofs = {}, []
for line in lines("proofs.jsonl"):
    if line["format"].startswith("clearseal-vector-evidence/"):
        current = line
    else:
        evidence[line["evidence"]] = current
        proofs.append(line)

store = QdrantClient(":memory:")
# The dot product of vectors of length 1 is their cosine. Distance.COSINE would scale them, which invalidates the proofs.
store.create_collection("texts", VectorParams(size=384, distance=Distance.DOT))
store.upsert(
    "texts",
    [
        PointStruct(id=number, vector=row["embedding"], payload={"text": row["text"], "proof": proof})
        for number, (row, proof) in enumerate(zip(rows, proofs, strict=True))
    ],
)

query = lines("query.jsonl")[0]["embedding"]
found = store.query_points("texts", query, limit=1, with_vectors=True).points[0]
print(f"{found.score:.2f}  {found.payload['text']}")

with open("found.vector.jsonl", "w", encoding="utf-8") as file:
    file.write(json.dumps({"text": found.payload["text"], "embedding": found.vector}) + "\n")
with open("found.proof.jsonl", "w", encoding="utf-8") as file:
    proof = found.payload["proof"]
    file.write(json.dumps(evidence[proof["evidence"]]) + "\n" + json.dumps(proof) + "\n")
