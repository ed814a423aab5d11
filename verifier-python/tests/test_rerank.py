"""Several models in one service: each has its session, and every score its proof."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import models
import pytest
from conftest import BINARIES, Host, Service

import clearseal

QUERY = "how are keys released?"
DOCUMENTS = ["a key", "the key is released to the enclave", "a cat sleeps"]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with an embedding model and a cross-encoder."""
    folder, program = tmp_path_factory.mktemp("several"), BINARIES / "clearseal"
    options = models.embedding(folder, "small", program) + models.reranking(folder, "ranker", program)
    running = Service(folder / "log", options)
    yield running
    running.stop()


def test_the_models_of_the_manifest_are_listed(several: Service) -> None:
    with clearseal.connect(several.url, allow_simulated=True) as session:
        assert [(model.id, model.dimension, model.normalised) for model in session.models] == [
            ("small", 32, True),
            ("ranker", 1, False),
        ]
        assert session.with_model("small") is session
        assert session.with_model("org/ranker") is session.with_model("ranker")
        with pytest.raises(clearseal.ClearsealError) as refused:
            session.with_model("other")
        assert refused.value.code == "MODEL_NOT_SERVED"


def test_every_score_has_a_proof(several: Service) -> None:
    with clearseal.connect(several.url, policy=several.policy(), allow_simulated=True) as session:
        ranking = session.rerank(QUERY, DOCUMENTS, model="ranker", top_n=2)
        assert len(ranking.results) == 2
        first, second = ranking.results
        assert first.score >= second.score and DOCUMENTS[first.index] == first.document
        ranker = session.with_model("ranker").models[0]
        policy = json.loads(several.policy())
        policy["model"] = {"id": ranker.id, "sha256": ranker.sha256}
        for result in ranking.results:
            row, proof = json.loads(ranking.row(result)), f"{ranking.evidence}\n{result.proof}"

            def verify(row: dict[str, object], proof: str = proof) -> clearseal.Receipt:
                return clearseal.verify_vector(row, proof, policy=policy, allow_simulated=True)

            assert verify(row).claims["modelId"] == "ranker"
            for member, value in [("query", "other"), ("document", "other"), ("relevance_score", 0.125)]:
                with pytest.raises(clearseal.Refused) as refused:
                    verify({**row, member: value})
                assert refused.value.code == "RESPONSE_HASH_MISMATCH", member


def test_readme_reranks_as_it_says(several: Service) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    block = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[-1]
    stored: list[tuple[int, float, str, str]] = []
    with clearseal.connect(several.url, allow_simulated=True) as session:
        names = {"session": session, "documents": DOCUMENTS, "store": lambda *row: stored.append(row)}
        exec(block.replace("ms-marco-MiniLM-L6-v2", "ranker"), names)
    assert sorted(index for index, *_ in stored) == [0, 1, 2]


def test_scores_are_awaited_too(several: Service) -> None:
    async def rank() -> clearseal.Ranking:
        with clearseal.connect(several.url, allow_simulated=True) as session:
            return await session.rerank_async(QUERY, DOCUMENTS, model="ranker")

    assert sorted(result.index for result in asyncio.run(rank()).results) == [0, 1, 2]


def test_a_model_that_embeds_does_not_score(several: Service) -> None:
    with clearseal.connect(several.url, allow_simulated=True) as session:
        with pytest.raises(clearseal.ClearsealError) as refused:
            session.rerank(QUERY, DOCUMENTS)
        assert refused.value.code == "MODEL_TASK"


def test_without_the_choice_another_models_answer_is_refused(several: Service) -> None:
    with clearseal.connect(several.url, allow_simulated=True) as session:
        body = json.dumps({"model": "ranker", "query": QUERY, "documents": DOCUMENTS}).encode()
        with pytest.raises(clearseal.ClearsealError) as refused:
            session.fetch("POST", "/v1/rerank", headers={"content-type": "application/json"}, content=body)
        assert refused.value.code == "MODEL_HASH_MISMATCH"


def test_a_policy_change_reaches_the_other_model(several: Service) -> None:
    policy = json.loads(several.policy())
    with clearseal.connect(several.url, policy=policy, allow_simulated=True) as session:
        session.rerank(QUERY, DOCUMENTS, model="ranker")
        withdrawn = {**policy, "releases": [{"name": "other", "pcrs": {"0": "ab" * 48}}]}
        session.reload_policy(withdrawn)
        with pytest.raises(clearseal.Withdrawn):
            session.rerank(QUERY, DOCUMENTS, model="ranker")


def test_closing_ends_the_sessions_of_all_models(several: Service) -> None:
    session = clearseal.connect(several.url, allow_simulated=True)
    ranker = session.with_model("ranker")
    session.close()
    with pytest.raises(clearseal.ClearsealError) as closed:
        ranker.rerank(QUERY, DOCUMENTS)
    assert closed.value.code == "SESSION_CLOSED"


def test_texts_are_sealed(several: Service) -> None:
    host = Host(several)
    try:
        with clearseal.connect(host.url, allow_simulated=True) as session:
            session.rerank(QUERY, DOCUMENTS, model="ranker")
        assert not any(b"released" in content for _, content in host.seen)
        assert "/v1/rerank" not in host.paths
    finally:
        host.stop()
