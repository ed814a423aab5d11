"""Policies and requests in every accepted form."""

from types import SimpleNamespace

from clearseal._policy import policy_bytes
from clearseal._transport import _rest


def test_policy_text_may_begin_with_a_byte_order_mark() -> None:
    text = '\ufeff {"format": "clearseal-trust-policy/1"}'
    assert policy_bytes(text) == text.encode()


def test_the_enclave_learns_how_content_is_encoded() -> None:
    """The enclave refuses compressed content by its header; without the header it would report invalid JSON."""
    headers = {"content-type": "application/json", "content-encoding": "gzip", "authorization": "Bearer secret"}
    request = SimpleNamespace(headers=headers, content=b"\x1f\x8b", extensions={})
    sent = dict(_rest(request)["headers"])
    assert sent == {"content-type": "application/json", "content-encoding": "gzip"}
