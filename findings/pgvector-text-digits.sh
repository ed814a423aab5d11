#!/usr/bin/env bash
# pgvector 0.6.2 on PostgreSQL 16.2 (pgserver 0.1.4, psycopg 3.3.9, PyPI): `extra_float_digits` changes what is read from a vector only
# where the query casts it to `real[]`.
#
# Expected: `extra_float_digits = 0`, which writes floats with six digits, rounds the text of a `vector` too, and leaves
# `to_jsonb` alone, whose numbers are not text.
# Observed: pgvector writes a vector by its own code, always with enough digits to read the same float again. The cast to PostgreSQL's
# array loses them: in text, through a driver that asks for text, and in jsonb. The same holds for pgvector 0.8.6 on PostgreSQL 15.18.
#
# Output seen:
#   vector, as text: 0 of 1000 floats changed
#   real[], as text: 956 of 1000 floats changed
#   real[], by the driver: 956 of 1000 floats changed
#   to_jsonb(real[]): 956 of 1000 floats changed
#   real[], by the driver in binary: 0 of 1000 floats changed
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pgserver==0.1.4 "psycopg[binary]==3.3.9"

cat > "$folder/read.py" <<'PYTHON'
import json
import random
import struct
import sys
import pgserver
import psycopg

def single(number):
    return struct.unpack("f", struct.pack("f", number))[0]

draw = random.Random(1)
vector = [single(draw.gauss(0, 0.05)) for _ in range(1000)]
server = pgserver.get_server(sys.argv[1] + "/data")
try:
    with psycopg.connect(server.get_uri(), autocommit=True) as session:
        session.execute("create extension vector")
        session.execute("create table rows (v vector(1000))")
        session.execute("insert into rows values (%s)", [json.dumps(vector)])
        session.execute("set extra_float_digits = 0")

        def read(expression, **options):
            return session.execute(f"select {expression} from rows", **options).fetchone()[0]

        seen = [
            ("vector, as text", json.loads(read("v::text"))),
            ("real[], as text", json.loads("[" + read("v::real[]::text")[1:-1] + "]")),
            ("real[], by the driver", read("v::real[]")),
            ("to_jsonb(real[])", read("to_jsonb(v::real[])")),
            ("real[], by the driver in binary", read("v::real[]", binary=True)),
        ]
finally:
    server.cleanup()
changed = [sum(single(a) != b for a, b in zip(row, vector, strict=True)) for _, row in seen]
for (name, _), count in zip(seen, changed):
    print(f"{name}: {count} of 1000 floats changed")
sys.exit([count > 0 for count in changed] != [False, True, True, True, False])
PYTHON
"$folder/venv/bin/python" "$folder/read.py" "$folder"
