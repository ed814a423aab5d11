"""A verified service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, Mapping

from . import _transport
from ._clearseal import Answer, NativeSession
from ._errors import ClearsealError
from ._policy import Policy, policy_bytes, policy_path
from ._reports import Report

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Upstream:
    """State of one upstream."""

    url: str
    """Its address."""
    state: str
    """`idle`, `checking`, `trusted`, `simulated`, `refused`, `withdrawn` or `unreachable`."""
    valid_until: datetime | None
    """Time until which requests may be sealed under its proof."""


def connect(
    url: str | Sequence[str],
    *,
    policy: Policy | None = None,
    allow_simulated: bool = False,
    timeout: float = 120.0,
    candidates: int = 1,
    follow_policy: bool = False,
) -> Session:
    """Verifies the enclave behind `url`, and returns a session that seals requests to it.

    Args:
        url: Address of the service, such as `https://embed.example`, or several addresses. Each is verified separately; the next
            one is used if those before it fail.
        policy: Trust policy: path, JSON, or parsed JSON. Get it from a source that you trust, never from the service.
        allow_simulated: Also accept a simulated enclave, for development; without a policy it is verified under the service's
            own. Its operator can read everything that is sent.
        timeout: Timeout for one exchange with a host, in seconds.
        candidates: Number of verified enclaves to which each request is sealed, behind one address or several: 1 to 8. The first
            one with capacity answers, and the loss of one needs no new attestation. A host can have each compute the request.
        follow_policy: Check the policy's file every two seconds, and apply a new policy as `Session.reload_policy` does. `policy`
            has to be a path.

    Raises:
        Refused: A check failed. Nothing was sent but a nonce.
        Unreachable: There was no answer.
        ClearsealError: There is no policy, or the policy or the address is not valid.
    """
    urls = [url] if isinstance(url, str) else list(url)
    judge = None if policy is None else policy_bytes(policy)
    path = policy_path(policy)
    if follow_policy and path is None:
        raise ValueError("follow_policy needs a policy that is a path")
    native = NativeSession(urls, judge, allow_simulated, timeout, candidates)
    try:
        session = Session(urls, native, json.loads(native.connect()), path)
        if follow_policy and path is not None:
            native.follow_policy(path)
        return session
    except BaseException:
        native.close()
        raise


class Session:
    """A verified service, returned by `connect`. Safe to use from several threads and event loops; not after a fork.

    Attributes:
        base_url: Base URL for an OpenAI client. The encryption decides who can read a request, not this address.
        report: The report about the enclave, with every check, as of `connect`.
    """

    def __init__(
        self, urls: list[str], native: NativeSession, report: Mapping[str, Any], policy: str | None = None
    ) -> None:
        self.base_url = urls[0].rstrip("/") + "/v1"
        self.report = Report(report)
        self._native = native
        self._policy = policy
        # Callbacks of requests that an event loop awaits.
        self._pending: set[Callable[[Answer | Exception], None]] = set()

    @property
    def verdict(self) -> str:
        """`verified`, or `simulated` if that was allowed."""
        return self.report.verdict

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """Current state of each upstream."""

        def when(ms: int | None) -> datetime | None:
            return None if ms is None else datetime.fromtimestamp(ms / 1000, timezone.utc)

        return tuple(Upstream(url, state, when(until)) for url, state, until in self._native.states())

    def reload_policy(self, policy: Policy | None = None) -> None:
        """Replaces the trust policy; without an argument, reads the file that was passed to `connect` again.

        After this returns, nothing more is sent under a proof that the policy does not accept. Requests in flight to such an
        enclave are aborted. They and later ones are sent to another enclave if one new check finds an accepted one, and otherwise
        raise `Withdrawn` (`POLICY_WITHDRAWN`).

        Raises:
            ClearsealError: The policy is not valid. The previous one stays in force.
            OSError: The file cannot be read. The previous policy stays in force.
        """
        policy = self._policy if policy is None else policy
        if policy is None:
            raise ValueError("connect was not given a path: pass the policy")
        self._native.set_policy(policy_bytes(policy))

    @property
    def policy_problem(self) -> ClearsealError | None:
        """Why the latest policy in the followed file could not be used."""
        problem = self._native.policy_problem()
        return None if problem is None else ClearsealError(*problem)

    def transport(self, module: Any = None) -> Any:
        """A transport for `httpx.Client`, or for httpx2 with `module=httpx2`."""
        return _transport.sync(self, module or _transport.installed())

    def async_transport(self, module: Any = None) -> Any:
        """A transport for `httpx.AsyncClient`, or for httpx2 with `module=httpx2`."""
        return _transport.asynchronous(self, module or _transport.installed())

    def http_client(self, **options: Any) -> Any:
        """A client of httpx2, or of httpx if httpx2 is not installed: `OpenAI(http_client=session.http_client())`."""
        module = _transport.installed()
        return module.Client(transport=self.transport(module), **options)

    def async_http_client(self, **options: Any) -> Any:
        """An asynchronous client, for `AsyncOpenAI`."""
        module = _transport.installed()
        return module.AsyncClient(transport=self.async_transport(module), **options)

    def fetch(
        self,
        method: str,
        path: str,
        *,
        headers: Headers = (),
        content: bytes = b"",
        timeout: float | None = None,
    ) -> Answer:
        """Sends one sealed request, and returns the answer after verifying its receipt. An error from the enclave is an answer too.

        Raises:
            Refused, Unreachable, ClearsealError: There is no verified answer.
        """
        return self._native.fetch(method, path, _pairs(headers), content, timeout)

    async def fetch_async(
        self,
        method: str,
        path: str,
        *,
        headers: Headers = (),
        content: bytes = b"",
        timeout: float | None = None,
    ) -> Answer:
        """`fetch` for asyncio. Cancelling aborts the request."""
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[Answer] = loop.create_future()

        def done(outcome: Answer | Exception) -> None:
            try:
                loop.call_soon_threadsafe(settle, outcome)
            except RuntimeError:
                pass  # The loop is closed, so there is no waiter.

        def settle(outcome: Answer | Exception) -> None:
            if settled.done():
                return
            if isinstance(outcome, Exception):
                settled.set_exception(outcome)
            else:
                settled.set_result(outcome)

        # Added before `begin`, so that a concurrent `close` either finds it or makes `begin` fail.
        self._pending.add(done)
        try:
            task = self._native.begin(method, path, _pairs(headers), content, timeout, done)
            try:
                return await settled
            except asyncio.CancelledError:
                task.cancel()
                raise
        finally:
            self._pending.discard(done)
            # If `begin` failed, `close` may still set a result that is never awaited.
            settled.cancel()

    def close(self) -> None:
        """Closes connections and stops threads. Each pending `fetch_async` fails with `SESSION_CLOSED`."""
        self._native.close()
        # The threads stop without calling their callbacks.
        for done in list(self._pending):
            done(ClearsealError("SESSION_CLOSED", "the session is closed", "Connect again."))

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self.base_url} {self.verdict}>"


def _pairs(headers: Headers) -> list[tuple[str, str]]:
    return list(headers.items() if isinstance(headers, Mapping) else headers)
