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
    """What is known of one upstream."""

    url: str
    """Its address."""
    state: str
    """`idle`, `checking`, `trusted`, `simulated`, `refused`, `withdrawn` or `unreachable`."""
    valid_until: datetime | None
    """The last moment at which requests are sealed under its proof."""


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
        url: Address of the service, such as `https://embed.example`; of several, each verified by itself, the next is asked where
            those before it fail.
        policy: Trust policy: path, JSON, or parsed JSON. Get it from whom you trust, never from the service.
        allow_simulated: Also accept a simulated enclave, for development; without a policy it is judged by the service's own. Its
            operator reads what is sent.
        timeout: Longest for one exchange with a host, in seconds.
        candidates: Seals each request to so many verified enclaves, behind one address or several; whichever has room answers, and
            one that is gone costs no new attestation. A host can then have a request computed once by each. 1 to 8.
        follow_policy: Look at the policy's file every two seconds, and take another policy into use as `Session.reload_policy` does.
            `policy` has to be a path.

    Raises:
        Refused: A check failed. Nothing was sent but a nonce.
        Unreachable: Nobody could be asked.
        ClearsealError: There is no policy, or it or the address cannot be used.
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
    """A verified service. Safe to use from several threads and event loops; not after a fork. `connect` makes one.

    Attributes:
        base_url: Base URL for an OpenAI client. The seal decides who reads a request, not this address.
        report: The judgement of the enclave, with every check, as of `connect`.
    """

    def __init__(
        self, urls: list[str], native: NativeSession, report: Mapping[str, Any], policy: str | None = None
    ) -> None:
        self.base_url = urls[0].rstrip("/") + "/v1"
        self.report = Report(report)
        self._native = native
        self._policy = policy
        # Of requests that an event loop waits for.
        self._pending: set[Callable[[Answer | Exception], None]] = set()

    @property
    def verdict(self) -> str:
        """`verified`, or `simulated` where that was allowed."""
        return self.report.verdict

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """What is known of each upstream now."""

        def when(ms: int | None) -> datetime | None:
            return None if ms is None else datetime.fromtimestamp(ms / 1000, timezone.utc)

        return tuple(Upstream(url, state, when(until)) for url, state, until in self._native.states())

    def reload_policy(self, policy: Policy | None = None) -> None:
        """Judges by another trust policy from now on; without an argument by what the file that `connect` was given holds now.

        When this returns, nothing more is sent under a proof that the policy does not accept. Requests under way to such an enclave
        are cut. They, and later ones, go to another enclave where one fresh check finds one that is accepted, and raise `Withdrawn`
        (`POLICY_WITHDRAWN`) where it does not.

        Raises:
            ClearsealError: The policy cannot be used. The one before it stays in force.
            OSError: The file cannot be read. The policy before it stays in force.
        """
        policy = self._policy if policy is None else policy
        if policy is None:
            raise ValueError("connect was not given a path: pass the policy")
        self._native.set_policy(policy_bytes(policy))

    @property
    def policy_problem(self) -> ClearsealError | None:
        """Why the next policy of a file that is followed could not be taken."""
        problem = self._native.policy_problem()
        return None if problem is None else ClearsealError(*problem)

    def transport(self, module: Any = None) -> Any:
        """A transport for `httpx.Client`; with `module=httpx2` one for that."""
        return _transport.sync(self, module or _transport.installed())

    def async_transport(self, module: Any = None) -> Any:
        """A transport for `httpx.AsyncClient`; with `module=httpx2` one for that."""
        return _transport.asynchronous(self, module or _transport.installed())

    def http_client(self, **options: Any) -> Any:
        """A client of httpx2, or of httpx where that is what is installed: `OpenAI(http_client=session.http_client())`."""
        module = _transport.installed()
        return module.Client(transport=self.transport(module), **options)

    def async_http_client(self, **options: Any) -> Any:
        """The same for `AsyncOpenAI`."""
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
        """Seals one request, and opens its answer, whose receipt was verified. What the enclave refuses is an answer too.

        Raises:
            Refused, Unreachable, ClearsealError: There is no answer that can be relied on.
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
        """The same for asyncio. Cancelling gives the request up."""
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[Answer] = loop.create_future()

        def done(outcome: Answer | Exception) -> None:
            try:
                loop.call_soon_threadsafe(settle, outcome)
            except RuntimeError:
                pass  # The loop is closed, so nobody waits.

        def settle(outcome: Answer | Exception) -> None:
            if settled.done():
                return
            if isinstance(outcome, Exception):
                settled.set_exception(outcome)
            else:
                settled.set_result(outcome)

        # Before it begins: `close` then either finds it here, or has ended the session that it would begin in.
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
            # Where it did not begin, `close` may still settle what nobody waits for.
            settled.cancel()

    def close(self) -> None:
        """Ends connections and threads. Each `fetch_async` under way fails with `SESSION_CLOSED`."""
        self._native.close()
        # The threads end without a word of what was on its way.
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
