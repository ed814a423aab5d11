"""Fills Postgres with rows and their proofs, searches it, and writes the found row and its proof."""

import contextlib
import json
import os
import tempfile

import psycopg

SCHEMA = """
create extension if not exists vector;
create temporary table evidence (id text primary key, line text not null);
create temporary table rows (
    id bigint primary key,
    text text not null,
    embedding vector(384) not null,
    evidence text not null references evidence,
    proof text not null
);
"""

# The inner product of vectors of length 1 is their cosine. A `vector` keeps every bit of a float32; `halfvec` and `l2_normalize`
# do not, and the proof does not match a changed vector.
NEAREST = """
select text,
    -(embedding <#> %(query)s::vector) as cosine,
    json_build_object('text', text, 'embedding', embedding) as row,
    line || E'\\n' || proof as proof
from rows join evidence on evidence.id = evidence
order by embedding <#> %(query)s::vector
limit 1
"""


def lines(name):
    with open(name, encoding="utf-8") as file:
        return file.read().splitlines()


def database(resources):
    """Address of the database; `resources` ends the one that is started for this run."""
    if "DATABASE_URL" in os.environ:
        return os.environ["DATABASE_URL"]
    import pgserver

    folder = resources.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    return resources.enter_context(pgserver.get_server(folder)).get_uri()


with contextlib.ExitStack() as resources:
    session = resources.enter_context(psycopg.connect(database(resources)))
    session.execute(SCHEMA)
    rows = enumerate(map(json.loads, lines("vectors.jsonl")))
    # A line of evidence precedes the proofs that refer to it.
    for line in lines("proofs.jsonl"):
        proof = json.loads(line)
        if proof["format"].startswith("clearseal-vector-evidence/"):
            evidence = line
            continue
        session.execute("insert into evidence values (%s, %s) on conflict do nothing", [proof["evidence"], evidence])
        number, row = next(rows)
        values = [number, row["text"], json.dumps(row["embedding"]), proof["evidence"], line]
        session.execute("insert into rows values (%s, %s, %s, %s, %s)", values)

    query = json.loads(lines("query.jsonl")[0])["embedding"]
    text, cosine, row, proof = session.execute(NEAREST, {"query": json.dumps(query)}).fetchone()

print(f"{cosine:.2f}  {text}")
with open("found.vector.jsonl", "w", encoding="utf-8") as file:
    file.write(json.dumps(row) + "\n")
with open("found.proof.jsonl", "w", encoding="utf-8") as file:
    file.write(proof + "\n")
