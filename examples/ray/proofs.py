"""Proofs of an answer's vectors, as `clearseal verify vector` reads them. docs/RECEIPTS.md defines every byte."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

# The content of an answer with embeddings begins with these bytes; the root and a quotation mark follow.
MARKER = b'{"clearseal":{"items":"'
ROOT_CHARS = 43


class ProofError(Exception):
    """The answer states another root than request and answer give. Do not rely on it."""


@dataclass(frozen=True)
class Item:
    """One embedded text."""

    vector: bytes
    """float32, little-endian."""
    tokens: int
    """Tokens read, special ones included."""
    truncated: bool
    """There were more."""


def prove(bundle: str, texts: Sequence[str]) -> tuple[list[Item], str, list[str]]:
    """Items of an answer in the order of `texts`; its line of evidence; the line of each item's proof.

    Args:
        bundle: Audit bundle with its content (`Answer.bundle(content=True)`), of vectors in base64.

    Raises:
        ProofError: The enclave committed to something else than it answered.
    """
    parts = json.loads(bundle)
    request, content, receipt = (decode(parts[name]) for name in ("request", "response", "receipt"))
    salt = decode(fields(request)["clearseal-salt"])
    rows = sorted(json.loads(content)["data"], key=lambda row: row["index"])
    if [row["index"] for row in rows] != list(range(len(texts))):
        raise ProofError("the answer has not one vector for each text")
    items = [item(row) for row in rows]

    salts = [tagged("item salt", salt, struct.pack(">Q", index)) for index in range(len(texts))]
    leaves = [
        sha256(b"\0" + leaf(index, *of)).digest() for index, of in enumerate(zip(salts, texts, items, strict=True))
    ]
    tree, paths = inclusion(leaves)
    root = tagged("items", struct.pack(">Q", len(leaves)), tree)
    if not content.startswith(MARKER + encode(root).encode() + b'"'):
        raise ProofError("the root over the items is another one than the answer states")

    evidence = {
        "format": "clearseal-vector-evidence/1",
        **{name: parts[name] for name in ("receipt", "document", "manifest")},
        "content_hash": encode(tagged("response", salt, content)),
        "count": len(leaves),
    }
    name = sha256(receipt).hexdigest()
    proofs = [
        line(
            {
                "format": "clearseal-vector-proof/1",
                "evidence": name,
                "index": index,
                "tokens": one.tokens,
                "truncated": one.truncated,
                "salt": encode(salts[index]),
                "path": [encode(node) for node in paths[index]],
            }
        )
        for index, one in enumerate(items)
    ]
    return items, line(evidence), proofs


def item(row: dict[str, object]) -> Item:
    read = row["clearseal"]
    return Item(b64decode(row["embedding"]), read["tokens"], read["truncated"])


def leaf(index: int, salt: bytes, text: str, one: Item) -> bytes:
    text_hash = tagged("item input", salt, b"\0", text.encode())
    vector_hash = tagged("item vector", salt, one.vector)
    read = struct.pack(">IB", one.tokens, one.truncated)
    return tagged("item", struct.pack(">Q", index), text_hash, vector_hash, read)


def inclusion(leaves: Sequence[bytes]) -> tuple[bytes, list[list[bytes]]]:
    """Root of a tree, and the path of each leaf from the leaf on (RFC 9162 §2.1.1, §2.1.3.1)."""
    if len(leaves) == 1:
        return leaves[0], [[]]
    # The largest power of two below the number of leaves.
    half = 1 << (len(leaves) - 1).bit_length() - 1
    left, left_paths = inclusion(leaves[:half])
    right, right_paths = inclusion(leaves[half:])
    paths = [path + [right] for path in left_paths] + [path + [left] for path in right_paths]
    return sha256(b"\1" + left + right).digest(), paths


def fields(message: bytes) -> dict[str, str]:
    """Fields of a request in Binary HTTP of known length (RFC 9292 §3)."""
    framing, rest = integer(message)
    if framing != 0:
        raise ValueError("this is no request of known length")
    for _ in ("method", "scheme", "authority", "path"):
        _, rest = counted(rest)
    section, _ = counted(rest)
    return dict(pairs(section))


def pairs(section: bytes) -> Iterator[tuple[str, str]]:
    while section:
        name, section = counted(section)
        value, section = counted(section)
        yield name.decode("ascii"), value.decode("latin-1")


def counted(message: bytes) -> tuple[bytes, bytes]:
    length, rest = integer(message)
    return rest[:length], rest[length:]


def integer(message: bytes) -> tuple[int, bytes]:
    """An integer of variable length (RFC 9000 §16), and what follows it."""
    size = 1 << (message[0] >> 6)
    return int.from_bytes(message[:size], "big") & (1 << 8 * size - 2) - 1, message[size:]


def tagged(label: str, *parts: bytes) -> bytes:
    return sha256(b"clearseal/1 " + label.encode() + b"\0" + b"".join(parts)).digest()


def encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
