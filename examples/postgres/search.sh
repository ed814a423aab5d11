#!/bin/sh
# Fills a table of Postgres with rows and their proofs, searches it, and verifies the row that was found.
# Needs the command line tool `clearseal`, curl, and Python with psycopg. DATABASE_URL names a database with pgvector; without it,
# the package pgserver starts one for this run.
set -eu
folder=$(dirname "$0")

# `--accept-simulated` and a policy from the service are for development. In production, use `--policy` with your own policy.
curl --fail --silent --show-error http://127.0.0.1:8787/v1/development-policy >policy.json
clearseal embed --accept-simulated --proofs proofs.jsonl <"$folder/texts.txt" >vectors.jsonl
printf '%s\n' "$1" | clearseal embed --accept-simulated >query.jsonl

# Prints the result, and writes found.vector.jsonl and found.proof.jsonl.
python3 "$folder/store.py"

clearseal verify vector found.proof.jsonl found.vector.jsonl --policy policy.json --accept-simulated
