"""Verifies an AWS Nitro Enclave before a word is sent, then talks to it under a seal.

    import clearseal
    from openai import OpenAI

    session = clearseal.connect("https://embed.example", policy="trust-policy.json")
    client = OpenAI(base_url=session.base_url, api_key="none", http_client=session.http_client())

`connect` raises `Refused` where a check fails, and nothing was sent then but a nonce. Every request is sealed to the key that was
verified; the enclave is verified again before its proof ends. A simulated enclave, which proves nothing, is refused unless
`allow_simulated=True`.
"""

from ._clearseal import Answer
from ._errors import ClearsealError, Refused, Unreachable, Withdrawn
from ._reports import Check, Receipt, Report
from ._session import Session, Upstream, connect
from ._verify import verify_document, verify_receipt, verify_vector

__all__ = [
    "Answer",
    "Check",
    "ClearsealError",
    "Receipt",
    "Refused",
    "Report",
    "Session",
    "Unreachable",
    "Upstream",
    "Withdrawn",
    "connect",
    "verify_document",
    "verify_receipt",
    "verify_vector",
]
