#!/bin/sh
# Sorts lines of standard input by their similarity to the first argument. Needs curl and jq.
set -eu
# The first row is the question. Rows have length 1, so its dot product with another row is the cosine.
jq --raw-input --null-input --arg question "$1" \
  '{ model: "all-MiniLM-L6-v2", input: ([$question] + [inputs | select(. != "")]) }' >request.json
curl --fail-with-body --silent --show-error http://127.0.0.1:8788/v1/embeddings \
  --header 'content-type: application/json' --data-binary @request.json |
  jq --raw-output --slurpfile request request.json '
    [.data[].embedding] as $rows
    | [range(1; $rows | length) as $row
        | { text: $request[0].input[$row], cosine: ([range(384) | $rows[0][.] * $rows[$row][.]] | add) }]
    | sort_by(-.cosine)[]
    | "\(.cosine * 100 | round)%  \(.text)"'
rm request.json
