"""Trust policies as callers pass them."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Union

Policy = Union[str, "os.PathLike[str]", bytes, Mapping[str, Any]]
"""A path, JSON, or parsed JSON."""


def policy_path(policy: Policy | None) -> str | None:
    """The path, if the policy is given as one."""
    if isinstance(policy, os.PathLike):
        return os.path.abspath(policy)
    if isinstance(policy, str) and not policy.lstrip().startswith("{"):
        return os.path.abspath(policy)
    return None


def policy_bytes(policy: Policy) -> bytes:
    """The policy's JSON. A `str` that begins with `{` is JSON; any other is a path."""
    if isinstance(policy, bytes):
        return policy
    if isinstance(policy, Mapping):
        return json.dumps(policy).encode()
    if isinstance(policy, str) and policy.removeprefix("\ufeff").lstrip().startswith("{"):
        return policy.encode()
    with open(policy, "rb") as file:
        return file.read()
