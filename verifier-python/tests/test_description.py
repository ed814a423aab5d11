"""Validates the OpenAPI description of the private API, and real requests and answers against its JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import openapi_spec_validator
import pytest
from conftest import MODEL, Service
from jsonschema import Draft202012Validator, ValidationError  # type: ignore[import-untyped]

import clearseal


def test_the_served_description_describes(service: Service) -> None:
    with clearseal.connect(service.url, allow_simulated=True) as session:
        document = json.loads(session.fetch("GET", "/v1/openapi.json").content)
        openapi_spec_validator.validate(document)

        def judge(name: str) -> Any:
            schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
            return Draft202012Validator(schema)

        requests: list[tuple[bool, dict[str, Any]]] = [
            (True, {"model": MODEL, "input": "a line"}),
            (True, {"model": MODEL, "input": ["a line", "another"], "encoding_format": "base64", "dimensions": 64}),
            (True, {"model": MODEL, "input": [101, 102], "tokenizer": MODEL, "other": 1}),
            (False, {"model": MODEL, "input": [[]], "tokenizer": MODEL}),
            (False, {"model": MODEL, "input": ["a line", 1]}),
            (False, {"input": "a line"}),
        ]
        for good, request in requests:
            assert judge("EmbeddingsRequest").is_valid(request) == good, request
            body = json.dumps(request).encode()
            answer = session.fetch("POST", "/v1/embeddings", headers={"content-type": "application/json"}, content=body)
            assert (answer.status == 200) == good, request
            judge("Embeddings" if good else "Refusal").validate(json.loads(answer.content))
        judge("Models").validate(json.loads(session.fetch("GET", "/v1/models").content))
        judge("Model").validate(json.loads(session.fetch("GET", f"/v1/models/{MODEL}").content))
        with pytest.raises(ValidationError):
            judge("Model").validate({})
