"""Judgements, as the verifier made them. Nothing here decides anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping


@dataclass(frozen=True)
class Check:
    """One question that the verifier asks, and its answer."""

    id: int
    """Number of the check; unique within its report."""
    name: str
    """Stable name."""
    stage: str
    """`document`, `chain`, `image` or `binding`; of a receipt `parse`, `signature`, `claims` or `policy`."""
    title: str
    """The question in plain words."""
    required: bool
    """Whether a verdict needs it to pass."""
    state: str
    """`not-run`, `passed`, `failed`, `warning` or `skipped`."""
    code: str | None
    """Stable code, where it failed."""
    expected: str
    """What a good answer looks like."""
    observed: str
    """What the evidence said; empty until the check ran."""


class Report:
    """Judgement of an attestation document or of a receipt.

    Attributes:
        raw: All of it, as the verifier wrote it.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    @property
    def verdict(self) -> str:
        """`verified`, `simulated`, `authentic`, `signed` or `refused`."""
        return str(self.raw["verdict"])

    @property
    def code(self) -> str | None:
        """Stable code of the refusal."""
        return _text(self.raw["code"])

    @property
    def message(self) -> str | None:
        """What happened, where it was refused."""
        return _text(self.raw["message"])

    @property
    def remedy(self) -> str | None:
        """What to do next, where it was refused."""
        return _text(self.raw["remedy"])

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, in the order in which they run."""
        names = Check.__dataclass_fields__
        return tuple(Check(**{name: row[name] for name in names}) for row in self.raw["checks"])

    def __repr__(self) -> str:
        code = f" {self.code}" if self.code else ""
        return f"<{type(self).__name__} {self.verdict}{code}>"


class Receipt(Report):
    """Judgement of a receipt, and that of the attestation which it rests on."""

    def __init__(self, raw: Mapping[str, Any], attestation: Report) -> None:
        super().__init__(raw)
        self.attestation = attestation

    @property
    def claims(self) -> Mapping[str, Any]:
        """What the enclave states of the request: model, hashes, time, sequence."""
        return dict(self.raw["claims"])


def _text(value: object) -> str | None:
    return None if value is None else str(value)
