"""Verifies an AWS Nitro Enclave before sending anything, then encrypts every request to it.

    import clearseal
    from openai import OpenAI

    session = clearseal.connect("https://embed.example", policy="trust-policy.json")
    client = OpenAI(base_url=session.base_url, api_key="none", http_client=session.http_client())

`connect` raises `Refused` if a check fails; only a nonce has been sent by then. Every request is encrypted to the verified key; the
enclave is verified again before its proof expires. A simulated enclave, which proves nothing, is refused unless
`allow_simulated=True`.
"""

from ._clearseal import Answer
from ._errors import ClearsealError, Refused, Unreachable, Withdrawn
from ._models import RankedDocument, Ranking, ServedModel
from ._reports import Check, Receipt, Report
from ._session import Session, Upstream, connect
from ._verify import verify_document, verify_receipt, verify_vector

__all__ = [
    "Answer",
    "Check",
    "ClearsealError",
    "RankedDocument",
    "Ranking",
    "Receipt",
    "Refused",
    "Report",
    "ServedModel",
    "Session",
    "Unreachable",
    "Upstream",
    "Withdrawn",
    "connect",
    "verify_document",
    "verify_receipt",
    "verify_vector",
]
