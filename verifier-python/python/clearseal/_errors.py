"""Why something was not done. Codes never change their meaning; docs/ERRORS.md lists them."""

from __future__ import annotations

import json
from typing import Any

from ._reports import Report


class ClearsealError(Exception):
    """Something was not done. Holds nothing of a user's text.

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
        # By default an exception is made again from its one text.
        return (type(self), (self.code, self.message, self.remedy))


class Refused(ClearsealError):
    """Judged, and not accepted: the enclave, a document or a receipt. Nothing was sent to that enclave.

    Attributes:
        report: The judgement, with every check.
    """

    def __init__(self, report: str) -> None:
        self.report = Report(json.loads(report))
        raw = self.report
        super().__init__(raw.code or "REFUSED", raw.message or "it was refused", raw.remedy or "Send nothing to it.")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (json.dumps(self.report.raw),))


class Withdrawn(Refused):
    """The trust policy was changed while the session was open, and accepts no enclave of the service any more. Code
    `POLICY_WITHDRAWN`; nothing was sent since the change.

    Attributes:
        report: The judgement of the enclave that answers now, with every check.
    """

    def __init__(self, report: str, message: str, remedy: str) -> None:
        self.report = Report(json.loads(report))
        ClearsealError.__init__(self, "POLICY_WITHDRAWN", message, remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (json.dumps(self.report.raw), self.message, self.remedy))


class Unreachable(ClearsealError):
    """No answer came, or one without a seal. Says nothing about the enclave.

    Attributes:
        status: HTTP status of an answer without a seal; `None` where no answer came.
    """

    def __init__(self, code: str, message: str, remedy: str, status: int | None) -> None:
        super().__init__(code, message, remedy)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.code, self.message, self.remedy, self.status))
