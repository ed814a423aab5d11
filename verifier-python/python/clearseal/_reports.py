"""Reports of the verifier. Nothing here decides anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping


@dataclass(frozen=True)
class Check:
    """One check of the verifier, and its result."""

    id: int
    """Number of the check; unique within its report."""
    name: str
    """Stable name."""
    stage: str
    """`document`, `chain`, `image` or `binding`; for a receipt `parse`, `signature`, `claims` or `policy`."""
    title: str
    """The check in plain words."""
    required: bool
    """Whether the check has to pass."""
    state: str
    """`not-run`, `passed`, `failed`, `warning` or `skipped`."""
    code: str | None
    """Stable code, if the check failed."""
    expected: str
    """Expected value."""
    observed: str
    """Value in the evidence; empty until the check has run."""


class Report:
    """Report about an attestation document or a receipt.

    Attributes:
        raw: The complete report, as the verifier wrote it.
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
        """Why it was refused, if it was."""
        return _text(self.raw["message"])

    @property
    def remedy(self) -> str | None:
        """Next step, if it was refused."""
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
    """Report about a receipt and about its attestation."""

    def __init__(self, raw: Mapping[str, Any], attestation: Report) -> None:
        super().__init__(raw)
        self.attestation = attestation

    @property
    def claims(self) -> Mapping[str, Any]:
        """The enclave's claims about the request: model, hashes, time, sequence number."""
        return dict(self.raw["claims"])


def _text(value: object) -> str | None:
    return None if value is None else str(value)
