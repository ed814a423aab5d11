"""Trust policies in the forms in which callers have them."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Union

Policy = Union[str, "os.PathLike[str]", bytes, Mapping[str, Any]]
"""A path, the JSON as bytes, or the JSON parsed."""


def policy_path(policy: Policy | None) -> str | None:
    """The path, where the policy is one."""
    if isinstance(policy, os.PathLike):
        return os.path.abspath(policy)
    if isinstance(policy, str) and not policy.lstrip().startswith("{"):
        return os.path.abspath(policy)
    return None


def policy_bytes(policy: Policy) -> bytes:
    """The policy's JSON. A `str` is a path: text that begins with `{` is taken for JSON, as no path should."""
    if isinstance(policy, bytes):
        return policy
    if isinstance(policy, Mapping):
        return json.dumps(policy).encode()
    if isinstance(policy, str) and policy.removeprefix("\ufeff").lstrip().startswith("{"):
        return policy.encode()
    with open(policy, "rb") as file:
        return file.read()
