"""Offline verification of documents and receipts."""

from __future__ import annotations

import base64
import json
import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import MODEL, Host, Revocation, Service

import clearseal

NONCE = bytes(range(32))


def evidence(service: Service, nonce: bytes = NONCE) -> bytes:
    text = base64.urlsafe_b64encode(nonce).rstrip(b"=").decode()
    return service.get(f"/v1/attestation?nonce={text}")


def test_a_document_is_judged(service: Service) -> None:
    policy, document = service.policy(), evidence(service)
    report = clearseal.verify_document(document, policy=policy, nonce=NONCE, allow_simulated=True)
    assert report.verdict == "simulated" and report.code is None
    required = [check for check in report.checks if check.required]
    assert required and all(check.state == "passed" for check in required)


def test_what_is_not_accepted_raises_with_a_code(service: Service) -> None:
    policy, document = service.policy(), evidence(service)
    late = datetime.now(timezone.utc) + timedelta(days=365)
    cases: list[tuple[str, bytes, dict[str, Any]]] = [
        ("SIMULATION_REFUSED", document, {"allow_simulated": False}),
        ("NONCE_MISMATCH", document, {"nonce": bytes(32)}),
        ("NONCE_TOO_SHORT", document, {"nonce": b"short"}),
        ("CERTIFICATE_EXPIRED", document, {"at": late}),
        ("ENVELOPE_MALFORMED", b"no document", {}),
        ("ENVELOPE_MALFORMED", b"", {}),
    ]
    for code, changed, options in cases:
        arguments = {"policy": policy, "nonce": NONCE, "allow_simulated": True, **options}
        with pytest.raises(clearseal.Refused) as refused:
            clearseal.verify_document(changed, **arguments)
        assert refused.value.code == code
        assert refused.value.report.verdict == "refused"
        assert refused.value.remedy


def test_revocation_lists_are_judged_and_may_be_required(service: Service) -> None:
    policy, document = service.policy(), evidence(service)
    required = {**json.loads(policy), "revocation": "required"}
    cases: list[tuple[str, Any, bytes]] = [
        ("REVOCATION_UNKNOWN", required, b""),
        ("CRL_MALFORMED", policy, b"no list"),
        ("CRL_MALFORMED", required, bytes.fromhex("3003020100")),
        ("CRL_TOO_LARGE", policy, bytes(10 * 1024 * 1024 + 1)),
    ]
    for code, judge, lists in cases:
        with pytest.raises(clearseal.Refused) as refused:
            clearseal.verify_document(document, policy=judge, nonce=NONCE, crls=lists, allow_simulated=True)
        assert refused.value.code == code
    report = clearseal.verify_document(document, policy=policy, nonce=NONCE, allow_simulated=True)
    row = next(check for check in report.checks if check.id == 27)
    assert row.state == "skipped" and not row.required


@pytest.mark.parametrize("revocation", ["when-given", "required"])
def test_a_revoked_certificate_is_refused_and_a_good_one_is_not(service: Service, revocation: str) -> None:
    samples = Revocation.sign(evidence(service), service.policy())
    arguments: dict[str, Any] = {
        "policy": {**samples.policy, "revocation": revocation},
        "nonce": NONCE,
        "allow_simulated": True,
    }
    report = clearseal.verify_document(samples.evidence, crls=samples.current, **arguments)
    row = next(check for check in report.checks if check.id == 27)
    assert (report.verdict, row.state, row.required) == ("simulated", "passed", True)
    assert row.observed.startswith("Not revoked: regional, zonal, instance; per CRL of 20")
    with pytest.raises(clearseal.Refused) as refused:
        clearseal.verify_document(samples.evidence, crls=samples.revoking, **arguments)
    assert refused.value.code == "CERTIFICATE_REVOKED"
    assert refused.value.report.verdict == "refused"
    row = next(check for check in refused.value.report.checks if check.id == 27)
    assert row.state == "failed" and "instance" in row.observed
    # The list's signature changed in one bit.
    changed = samples.revoking[:-1] + bytes([samples.revoking[-1] ^ 1])
    with pytest.raises(clearseal.Refused) as forged:
        clearseal.verify_document(samples.evidence, crls=changed, **arguments)
    assert forged.value.code == "CRL_SIGNATURE"


def test_a_client_judges_the_lists_that_its_host_serves(host: Host, service: Service) -> None:
    samples = Revocation.sign(evidence(service), service.policy())
    policy = {**samples.policy, "revocation": "required"}
    host.changes["/v1/attestation"] = lambda answer: Revocation.sign(answer, service.policy()).evidence
    host.changes["/v1/crls"] = lambda _: samples.current
    # Evidence and lists made in different seconds fit each other.
    time.sleep(1)
    with clearseal.connect(host.url, policy=policy, allow_simulated=True) as session:
        row = next(check for check in session.report.checks if check.id == 27)
        assert row.state == "passed"
    host.changes["/v1/crls"] = lambda _: samples.revoking
    with pytest.raises(clearseal.Refused) as refused:
        clearseal.connect(host.url, policy=policy, allow_simulated=True)
    assert refused.value.code == "CERTIFICATE_REVOKED"
    assert "/v1/gateway" not in host.paths


def test_a_host_that_serves_no_lists_is_refused_where_they_are_required(service: Service) -> None:
    required = {**json.loads(service.policy()), "revocation": "required"}
    with pytest.raises(clearseal.Refused) as refused:
        clearseal.connect(service.url, policy=required, allow_simulated=True)
    assert refused.value.code == "REVOCATION_UNKNOWN"


def test_no_changed_byte_is_accepted(service: Service) -> None:
    policy, document = service.policy(), evidence(service)
    for at in range(0, len(document), 97):
        changed = document[:at] + bytes([document[at] ^ 1]) + document[at + 1 :]
        with pytest.raises(clearseal.Refused):
            clearseal.verify_document(changed, policy=policy, nonce=NONCE, allow_simulated=True)


def test_without_a_nonce_nothing_is_verified(service: Service) -> None:
    policy, document = service.policy(), evidence(service)
    with pytest.raises(clearseal.Refused) as refused:
        clearseal.verify_document(document, policy=policy)
    assert refused.value.code


def bundle(service: Service, content: bool) -> str:
    with clearseal.connect(service.url, allow_simulated=True) as session:
        body = json.dumps({"model": MODEL, "input": "a line"}).encode()
        answer = session.fetch("POST", "/v1/embeddings", headers={"content-type": "application/json"}, content=body)
        text = answer.bundle(content=content)
        assert text is not None
        return text


@pytest.mark.parametrize("content", [False, True])
def test_a_receipt_is_judged_with_its_evidence(service: Service, content: bool) -> None:
    text, policy = bundle(service, content), service.policy()
    for form in (text, text.encode(), json.loads(text)):
        receipt = clearseal.verify_receipt(form, policy=policy, allow_simulated=True)
        assert receipt.verdict == receipt.attestation.verdict == "simulated"
        assert receipt.claims["modelId"] == MODEL
    with pytest.raises(clearseal.Refused) as simulated:
        clearseal.verify_receipt(text, policy=policy)
    assert simulated.value.code == "SIMULATION_REFUSED"


def test_a_vector_is_judged_by_its_proof(service: Service) -> None:
    policy, texts = service.policy(), ["one line", "another"]
    with clearseal.connect(service.url, allow_simulated=True) as session:
        body = json.dumps({"model": MODEL, "input": texts}).encode()
        answer = session.fetch("POST", "/v1/embeddings", headers={"content-type": "application/json"}, content=body)
        models = session.fetch("GET", "/v1/models")
    evidence, proofs = answer.proofs()
    rows = [
        {"text": text, "embedding": item["embedding"]}
        for text, item in zip(texts, json.loads(answer.content)["data"], strict=True)
    ]
    for row, proof in zip(rows, proofs, strict=True):
        for form in (row, json.dumps(row)):
            receipt = clearseal.verify_vector(form, f"{evidence}\n{proof}", policy=policy, allow_simulated=True)
            assert receipt.verdict == receipt.attestation.verdict == "simulated"
            assert receipt.claims["modelId"] == MODEL
    own = f"{evidence}\n{proofs[0]}"
    refusals: list[tuple[str, dict[str, Any], str]] = [
        ("RESPONSE_HASH_MISMATCH", {**rows[0], "text": "one lime"}, own),
        ("RESPONSE_HASH_MISMATCH", rows[0], f"{evidence}\n{proofs[1]}"),
        ("ROW_DIFFERS", {**rows[0], "truncated": True}, own),
        ("PROOF_INCOMPLETE", rows[0], evidence),
        ("ROW_MALFORMED", {"text": "one line"}, own),
    ]
    for code, row, proof in refusals:
        with pytest.raises(clearseal.ClearsealError) as refused:
            clearseal.verify_vector(row, proof, policy=policy, allow_simulated=True)
        assert refused.value.code == code
    with pytest.raises(clearseal.Refused) as simulated:
        clearseal.verify_vector(rows[0], own, policy=policy)
    assert simulated.value.code == "SIMULATION_REFUSED"
    with pytest.raises(clearseal.ClearsealError) as absent:
        models.proofs()
    assert absent.value.code == "ITEMS_ABSENT"


def test_a_changed_bundle_is_refused(service: Service) -> None:
    policy = service.policy()
    parsed = json.loads(bundle(service, True))
    for member in ("receipt", "document", "manifest", "request", "response"):
        raw = bytearray(base64.urlsafe_b64decode(parsed[member] + "=="))
        raw[-1] ^= 1
        changed = {**parsed, member: base64.urlsafe_b64encode(raw).rstrip(b"=").decode()}
        with pytest.raises(clearseal.Refused) as refused:
            clearseal.verify_receipt(changed, policy=policy, allow_simulated=True)
        assert refused.value.code, member
    unreadable: list[Any] = ["{}", "", b"\xff", {"format": "other"}]
    for form in unreadable:
        with pytest.raises(clearseal.ClearsealError) as error:
            clearseal.verify_receipt(form, policy=policy)
        assert error.value.code == "BUNDLE_MALFORMED"


def genuine() -> list[Path]:
    """Documents signed by AWS, which this project does not ship."""
    default = Path(__file__).resolve().parents[3] / "shared/vectors"
    return sorted((Path(os.environ.get("CLEARSEAL_VECTORS", default)) / "nitro/documents").glob("*.cbor"))


def test_genuine_documents_are_authentic_and_no_more_without_a_nonce() -> None:
    documents = genuine()
    if not documents:
        skipped = os.environ.get("CLEARSEAL_SKIPPED")
        if skipped:
            with open(skipped, "a", encoding="utf-8") as file:
                file.write("python::genuine_documents\tno published vectors\n")
        pytest.skip("no published vectors")
    accepted = 0
    for path in documents:
        document = path.read_bytes()
        # Reads the document's measurements from the report of a refusal.
        policy: dict[str, Any] = {
            "format": "clearseal-trust-policy/1",
            "name": "genuine",
            "root": "aws-nitro-enclaves-g1",
            "releases": [{"name": "other", "pcrs": {"0": "11" * 48}}],
        }
        with pytest.raises(clearseal.Refused) as refused:
            clearseal.verify_document(document, policy=policy)
        reported = refused.value.report.raw["document"]
        made = datetime.fromtimestamp(reported["timestampMs"] / 1000, timezone.utc)
        pcrs = {str(pcr["index"]): pcr["value"] for pcr in reported["pcrs"] if pcr["index"] < 3}
        if any(set(value) == {"0"} for value in pcrs.values()):
            continue
        policy["releases"] = [{"name": "its own", "pcrs": pcrs}]
        report = clearseal.verify_document(document, policy=policy, at=made, allow_authentic=True)
        assert report.verdict == "authentic"
        with pytest.raises(clearseal.Refused) as less:
            clearseal.verify_document(document, policy=policy, at=made)
        assert (less.value.code, less.value.report.verdict) == ("AUTHENTIC_ONLY", "authentic")
        accepted += 1
    assert accepted
