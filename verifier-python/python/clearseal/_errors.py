"""Exceptions. Codes never change their meaning; docs/ERRORS.md lists them."""

from __future__ import annotations

import json
from typing import Any

from ._reports import Report


class ClearsealError(Exception):
    """Base class. Never contains a user's text.

    Attributes:
        code: Stable code.
        message: What happened.
        remedy: What to do next.
    """

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(f"{message.removesuffix('.')}. {remedy} [{code}]")
        self.code = code
        self.message = message
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an exception is unpickled from its message alone.
        return (type(self), (self.code, self.message, self.remedy))


class Refused(ClearsealError):
    """An enclave, a document or a receipt was not accepted. Nothing was sent to that enclave.

    Attributes:
        report: The report, with every check.
    """

    def __init__(self, report: str) -> None:
        self.report = Report(json.loads(report))
        raw = self.report
        super().__init__(raw.code or "REFUSED", raw.message or "it was refused", raw.remedy or "Send nothing to it.")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (json.dumps(self.report.raw),))


class Withdrawn(Refused):
    """The trust policy was changed while the session was open, and no longer accepts any enclave of the service. Code
    `POLICY_WITHDRAWN`; nothing has been sent since the change.

    Attributes:
        report: The report about the current enclave, with every check.
    """

    def __init__(self, report: str, message: str, remedy: str) -> None:
        self.report = Report(json.loads(report))
        ClearsealError.__init__(self, "POLICY_WITHDRAWN", message, remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (json.dumps(self.report.raw), self.message, self.remedy))


class Unreachable(ClearsealError):
    """There was no answer, or an unencrypted one. Says nothing about the enclave.

    Attributes:
        status: HTTP status of an unencrypted answer; `None` if there was no answer.
    """

    def __init__(self, code: str, message: str, remedy: str, status: int | None) -> None:
        super().__init__(code, message, remedy)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.code, self.message, self.remedy, self.status))
