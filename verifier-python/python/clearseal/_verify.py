"""Offline verification."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Mapping

from ._clearseal import judge_bundle, judge_document, judge_vector
from ._policy import Policy, policy_bytes
from ._reports import Receipt, Report


def verify_document(
    document: bytes,
    *,
    policy: Policy,
    nonce: bytes | None = None,
    manifest: bytes | None = None,
    crls: bytes = b"",
    at: datetime | None = None,
    allow_simulated: bool = False,
    allow_authentic: bool = False,
) -> Report:
    """Verifies an attestation document under a trust policy.

    Args:
        document: The document, or evidence (document and manifest) as returned by `GET /v1/attestation`.
        policy: Path, JSON or parsed JSON of a trust policy (docs/POLICY.md).
        nonce: The nonce that was sent, at least 16 bytes. Without it the document cannot be tied to a request.
        manifest: The service manifest, if it is not part of `document`.
        crls: Certificate revocation lists in DER, concatenated, as returned by `GET /v1/crls`. Without any, revocation is
            not checked, which the policy may refuse.
        at: Time of the verification; now by default. Pass the original time for old evidence.
        allow_simulated: Accept the verdict *simulated*, which proves nothing about hardware.
        allow_authentic: Accept the verdict *authentic*: nonce or manifest were not checked.

    Returns:
        The report, with an accepted verdict.

    Raises:
        Refused: A check failed, or the verdict was not accepted; `report` has every check.
        ClearsealError: The policy is not valid.
    """
    at_ms = None if at is None else round(at.timestamp() * 1000)
    report = judge_document(
        document, policy_bytes(policy), nonce, manifest, crls, at_ms, allow_simulated, allow_authentic
    )
    return Report(json.loads(report))


def verify_receipt(bundle: str | bytes | Mapping[str, Any], *, policy: Policy, allow_simulated: bool = False) -> Receipt:
    """Verifies a receipt and its attestation (an audit bundle), as of the receipt's time.

    If the bundle contains request and answer, the receipt has to commit to them.

    Args:
        bundle: The bundle as JSON or parsed JSON, as written by `Answer.bundle()`, `clearseal embed --receipts` and the web page.
        policy: Path, JSON or parsed JSON of a trust policy.
        allow_simulated: Accept a receipt of a simulated enclave.

    Raises:
        Refused: A check of the receipt or of its attestation failed.
        ClearsealError: Bundle or policy cannot be read.
    """
    if isinstance(bundle, Mapping):
        bundle = json.dumps(bundle)
    elif isinstance(bundle, bytes):
        bundle = bundle.decode("utf-8", "replace")
    receipt, attestation = judge_bundle(bundle, policy_bytes(policy), allow_simulated)
    return Receipt(json.loads(receipt), Report(json.loads(attestation)))


def verify_vector(
    row: str | Mapping[str, Any], proof: str, *, policy: Policy, allow_simulated: bool = False
) -> Receipt:
    """Verifies that a vector was computed from its text, or a score from its pair, by the model and image that its receipt names.

    Args:
        row: JSON or parsed JSON with `embedding`, and `text` or the token ids (`tokens`); of a pair with `query`, `document` and
            `relevance_score`, such as `RankedDocument.row`.
        proof: The line of evidence and the line of the proof, from `Answer.proofs`, a `Ranking`, `clearseal embed --proofs` or
            `clearseal rerank --proofs`.
        policy: Path, JSON or parsed JSON of a trust policy.
        allow_simulated: Accept a receipt of a simulated enclave.

    Raises:
        Refused: Text, vector or score do not match, or a check of the receipt or of its attestation failed.
        ClearsealError: Row, proof or policy cannot be read.
    """
    if isinstance(row, Mapping):
        row = json.dumps(row)
    receipt, attestation = judge_vector(row, proof, policy_bytes(policy), allow_simulated)
    return Receipt(json.loads(receipt), Report(json.loads(attestation)))
