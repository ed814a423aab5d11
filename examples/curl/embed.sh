#!/bin/sh
# Embeds one text through the proxy, with OpenAI's API. Needs curl and jq.
set -eu
curl --fail-with-body --silent --show-error http://127.0.0.1:8788/v1/embeddings \
  --header 'content-type: application/json' \
  --data '{ "model": "all-MiniLM-L6-v2", "input": "only the enclave reads this" }' |
  jq --raw-output '"\(.data[0].embedding | length) numbers for \(.usage.prompt_tokens) tokens"'
