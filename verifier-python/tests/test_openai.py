"""OpenAI's own client over a sealed transport, with httpx2 and httpx."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest
from conftest import MODEL, Host, Service

import clearseal

both = pytest.mark.parametrize("module", [httpx2, httpx])


@both
def test_the_client_is_sealed_in_one_line(host: Host, module: Any) -> None:
    with clearseal.connect(host.url, allow_simulated=True) as session:
        http_client = module.Client(transport=session.transport(module))
        client = openai.OpenAI(base_url=session.base_url, api_key="sk-secret", http_client=http_client)
        answer = client.embeddings.create(model=MODEL, input=["The cat sleeps.", "A kitten naps."])
        assert [len(item.embedding) for item in answer.data] == [384, 384]
        assert client.models.list().data[0].id == MODEL
        with pytest.raises(openai.NotFoundError) as unknown:
            client.embeddings.create(model="text-embedding-3-small", input="x")
        assert unknown.value.code == "model_not_found"
    assert set(host.paths) == {"/v1/attestation", "/v1/crls", "/v1/development-policy", "/v1/gateway"}
    assert not any(b"kitten" in body or b"sk-secret" in body for _, body in host.seen)


@both
def test_the_asynchronous_client_too(service: Service, module: Any) -> None:
    async def main(session: clearseal.Session) -> None:
        http_client = module.AsyncClient(transport=session.async_transport(module))
        client = openai.AsyncOpenAI(base_url=session.base_url, api_key="none", http_client=http_client)
        texts = [f"text {number}" for number in range(64)]
        calls = (client.embeddings.create(model=MODEL, input=text) for text in texts)
        together = [answer.data[0].embedding for answer in await asyncio.gather(*calls)]
        at_once = await client.embeddings.create(model=MODEL, input=texts)
        assert together == [item.embedding for item in at_once.data]
        await client.close()

    with clearseal.connect(service.url, allow_simulated=True) as session:
        asyncio.run(main(session))


@both
def test_failures_arrive_as_that_library_says_them(host: Host, module: Any) -> None:
    with clearseal.connect(host.url, allow_simulated=True) as session:
        host.hold()
        http_client = module.Client(transport=session.transport(module), timeout=0.1)
        with pytest.raises(module.ReadTimeout) as late:
            http_client.get(session.base_url + "/models")
        assert isinstance(late.value.__cause__, clearseal.Unreachable)
        client = openai.OpenAI(
            base_url=session.base_url, api_key="none", http_client=http_client, timeout=0.1, max_retries=0
        )
        with pytest.raises(openai.APITimeoutError):
            client.models.list()
        host.stop()
        with pytest.raises(module.ConnectError) as gone:
            http_client.get(session.base_url + "/models")
        assert isinstance(gone.value.__cause__, clearseal.Unreachable)


def test_a_receipt_is_at_hand(service: Service) -> None:
    with clearseal.connect(service.url, allow_simulated=True) as session:
        client = openai.OpenAI(base_url=session.base_url, api_key="none", http_client=session.http_client())
        response = client.with_raw_response.embeddings.create(model=MODEL, input="x")
        answer = response.http_response.extensions["clearseal"]
        assert answer.has_receipt and answer.status == 200
        receipt = clearseal.verify_receipt(answer.bundle(), policy=service.policy(), allow_simulated=True)
        assert receipt.claims["modelId"] == MODEL


def test_readme_does_what_it_says(service: Service) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    # `test_rerank.py` runs the last block, with a service that has a cross-encoder.
    guarded, allowed, receipts, proofs, _ = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    names: dict[str, Any] = {"url": service.url, "policy": service.policy()}
    with pytest.raises(clearseal.Refused):
        exec(guarded, dict(names))
    exec(allowed, names)
    assert names["answer"].status == 200
    exec(guarded.replace("policy=policy", "policy=policy, allow_simulated=True"), names)
    assert len(names["answer"].data) == 1
    for block in (receipts, proofs):
        exec(block.replace("policy=policy", "policy=policy, allow_simulated=True"), names)
        assert names.pop("receipt").verdict == "simulated"
    names["session"].close()
