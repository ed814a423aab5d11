"""Transports for httpx and httpx2, which have the same interface but separate classes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._errors import Unreachable

if TYPE_CHECKING:
    from ._clearseal import Answer
    from ._session import Session

_SENT = ("content-type", "content-encoding", "accept")
"""Headers that the enclave needs. The API key and headers that describe the client's machine are not sent."""


def installed() -> Any:
    """httpx2, or httpx."""
    for name in ("httpx2", "httpx"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise ModuleNotFoundError("neither httpx2 nor httpx is installed; install one: pip install clearseal[httpx2]")


def sync(session: Session, module: Any) -> Any:
    """A transport that seals requests. Closing it leaves the session open."""

    class SealedTransport(module.BaseTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            request.read()
            try:
                return _response(module, session.fetch(*_target(request), **_rest(request)))
            except Unreachable as error:
                raise _translated(module, request, error) from error

    return SealedTransport()


def asynchronous(session: Session, module: Any) -> Any:
    """A transport for asyncio."""

    class AsyncSealedTransport(module.AsyncBaseTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            await request.aread()
            try:
                return _response(module, await session.fetch_async(*_target(request), **_rest(request)))
            except Unreachable as error:
                raise _translated(module, request, error) from error

    return AsyncSealedTransport()


def _target(request: Any) -> tuple[str, str]:
    return request.method, request.url.raw_path.decode("ascii")


def _rest(request: Any) -> dict[str, Any]:
    headers = [(name, request.headers[name]) for name in _SENT if name in request.headers]
    timeout = request.extensions.get("timeout", {}).get("read")
    return {"headers": headers, "content": request.content, "timeout": timeout}


def _response(module: Any, answer: Answer) -> Any:
    # httpx sets the length from the content; other headers come from the enclave unchanged.
    headers = [(name, value) for name, value in answer.headers if name != "content-length"]
    return module.Response(
        answer.status, headers=headers, content=answer.content, extensions={"clearseal": answer}
    )


def _translated(module: Any, request: Any, error: Unreachable) -> Exception:
    """The exception that callers of httpx expect; its cause has code and remedy."""
    kind: type[Exception] = module.ReadTimeout if error.code == "TIMEOUT" else module.ConnectError
    return kind(str(error), request=request)  # type: ignore[call-arg]
