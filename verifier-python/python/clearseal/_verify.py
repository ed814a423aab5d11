"""Judgements that need no service."""

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
    """Judges an attestation document by a trust policy.

    Args:
        document: The document, or evidence as `GET /v1/attestation` answers it: document and manifest.
        policy: Path, JSON or parsed JSON of a trust policy (docs/POLICY.md).
        nonce: The nonce that was sent, at least 16 bytes. Without it nobody knows for whom the document was made.
        manifest: The service manifest, where it is not part of `document`.
        crls: Certificate revocation lists in DER, one after another, as `GET /v1/crls` answers them. Without any, revocation is
            not judged, which the policy may refuse.
        at: The moment to judge for; now unless told otherwise. Old evidence is judged at its own time.
        allow_simulated: Accept the verdict *simulated*, which proves nothing about hardware.
        allow_authentic: Accept the verdict *authentic*: nonce or manifest were not judged.

    Returns:
        The report, of an accepted verdict.

    Raises:
        Refused: A check failed, or the verdict was not accepted; `report` has every check.
        ClearsealError: The policy cannot be used.
    """
    at_ms = None if at is None else round(at.timestamp() * 1000)
    report = judge_document(
        document, policy_bytes(policy), nonce, manifest, crls, at_ms, allow_simulated, allow_authentic
    )
    return Report(json.loads(report))


def verify_receipt(bundle: str | bytes | Mapping[str, Any], *, policy: Policy, allow_simulated: bool = False) -> Receipt:
    """Judges a receipt with its evidence (an audit bundle) as one chain, as of the receipt's own time.

    Where the bundle holds request and answer, the receipt has to commit to them.

    Args:
        bundle: JSON of the bundle, or that parsed. `Answer.bundle()`, `clearseal embed --receipts` and the page write them.
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
    """Judges that a vector was computed from its text, by the model and in the image that its receipt names.

    Args:
        row: JSON with `embedding`, and `text` or the token ids (`tokens`), or that parsed.
        proof: The line of evidence and the line of the vector's proof, as `Answer.proofs` and `clearseal embed --proofs` make them.
        policy: Path, JSON or parsed JSON of a trust policy.
        allow_simulated: Accept a receipt of a simulated enclave.

    Raises:
        Refused: Text or vector is another one, or a check of the receipt or of its attestation failed.
        ClearsealError: Row, proof or policy cannot be read.
    """
    if isinstance(row, Mapping):
        row = json.dumps(row)
    receipt, attestation = judge_vector(row, proof, policy_bytes(policy), allow_simulated)
    return Receipt(json.loads(receipt), Report(json.loads(attestation)))
