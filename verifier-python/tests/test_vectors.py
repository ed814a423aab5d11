"""The exchange vectors of testing/conformance: receipts and rows, each with the code that every implementation gives."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clearseal
import pytest


def suite() -> dict[str, Any]:
    """The vectors that the test runner wrote."""
    folder = os.environ.get("CLEARSEAL_KIT")
    if not folder:
        skipped = os.environ.get("CLEARSEAL_SKIPPED")
        if skipped:
            with open(skipped, "a", encoding="utf-8") as file:
                file.write("python::exchange_vectors\tno vectors; CLEARSEAL_KIT names their folder\n")
        pytest.skip("no vectors; CLEARSEAL_KIT names their folder")
    read: dict[str, Any] = json.loads(Path(folder, "exchanges.json").read_text(encoding="utf-8"))
    assert read["format"] == "clearseal-vectors/1"
    return read


def code_of(verify: Callable[[], object]) -> str:
    """The code of a refusal; empty if it is accepted."""
    try:
        verify()
    except clearseal.ClearsealError as error:
        return error.code
    return ""


def test_every_vector_has_its_code() -> None:
    vectors = suite()
    policy = vectors["policy"]
    assert vectors["receipts"] and vectors["vectors"]
    for known in vectors["receipts"]:

        def receipt(bundle: str = known["bundle"]) -> object:
            return clearseal.verify_receipt(bundle, policy=policy, allow_simulated=True)

        assert code_of(receipt) == known["code"], f"receipt {known['id']}"
    for known in vectors["vectors"]:

        def row(line: str = known["row"], proof: str = known["proof"]) -> object:
            return clearseal.verify_vector(line, proof, policy=policy, allow_simulated=True)

        assert code_of(row) == known["code"], f"vector {known['id']}"
