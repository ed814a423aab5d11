"""A verified service."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, Mapping

from . import _transport
from ._clearseal import Answer, NativeSession
from ._errors import ClearsealError
from ._models import Ranking, ServedModel, read_ranking, write_request
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
    followed = path if follow_policy else None
    return _open(_Options(urls, judge, allow_simulated, timeout, candidates, followed), path, None)


@dataclass(frozen=True)
class _Options:
    """Arguments of `connect`, to connect again with another model."""

    urls: list[str]
    policy: bytes | None
    allow_simulated: bool
    timeout: float
    candidates: int
    followed: str | None


def _open(options: _Options, path: str | None, model: ServedModel | None) -> Session:
    pin = None if model is None else (model.id, bytes.fromhex(model.sha256))
    native = NativeSession(
        options.urls, options.policy, options.allow_simulated, options.timeout, options.candidates, pin
    )
    try:
        session = Session(options, native, json.loads(native.connect()), path)
        if options.followed is not None:
            native.follow_policy(options.followed)
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
        self, options: _Options, native: NativeSession, report: Mapping[str, Any], policy: str | None = None
    ) -> None:
        self.base_url = options.urls[0].rstrip("/") + "/v1"
        self.report = Report(report)
        self._options = options
        self._native = native
        self._policy = policy
        # Sessions with other models, by hash. The lock covers this table and the policy in the options.
        self._others: dict[str, Session] = {}
        self._opening = threading.Lock()
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
        judge = policy_bytes(policy)
        with self._opening:
            self._native.set_policy(judge)
            self._options = replace(self._options, policy=judge)
            for other in self._others.values():
                other.reload_policy(judge)

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """The models of the verified enclave, as its manifest describes them: first the one that the trust policy demands."""
        return tuple(
            ServedModel(id, version, bytes(sha256).hex(), dimension, max_tokens, normalised)
            for id, version, sha256, dimension, max_tokens, normalised in self._native.models()
        )

    def with_model(self, name: str) -> Session:
        """A session with another model of the same service, by any form of its name; this one if it is already the model.

        Verifies the enclave again, under the trust policy with that model's hash in place of the demanded one. The hash is the one
        in `models`: the image decides it, not the policy. Policy changes of this session reach the other one, which is closed with
        it; later calls return the same session.

        Raises:
            ClearsealError: No model has the name (`MODEL_NOT_SERVED`).
            Refused, Unreachable: As `connect`.
        """
        models = self.models
        named = [model for model in models if model.id == name] or [model for model in models if model.has_name(name)]
        if not named:
            names = ", ".join(f"`{model.id}`" for model in models)
            message = f"the verified enclave does not hold that model; its models are {names}"
            raise ClearsealError("MODEL_NOT_SERVED", message, "Name one of these.")
        model = named[0]
        if model is models[0]:
            return self
        with self._opening:
            if model.sha256 not in self._others:
                self._others[model.sha256] = _open(self._latest_options(), self._policy, model)
            return self._others[model.sha256]

    def _latest_options(self) -> _Options:
        """The options with the policy that a followed file holds now. One that is not readable changes nothing."""
        if self._options.followed is None:
            return self._options
        try:
            return replace(self._options, policy=policy_bytes(self._options.followed))
        except OSError:
            return self._options

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

    def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        model: str | None = None,
        top_n: int | None = None,
        timeout: float | None = None,
    ) -> Ranking:
        """Scores `documents` for `query` with a cross-encoder, in one sealed request; at most 2,048.

        The receipt is verified, and the tree that it commits to is computed again from query, documents and scores, so that each
        result has a proof.

        Args:
            model: Name of the model, as `with_model` takes it; by default the one that the trust policy demands.
            top_n: Number of results, the best ones; all by default.

        Raises:
            ClearsealError: The enclave refused the request, with its code: `MODEL_TASK` for a model that embeds.
            Refused, Unreachable: There is no verified answer.
        """
        session = self if model is None else self.with_model(model)
        content = write_request(session.models[0].id, query, documents, top_n)
        answer = session.fetch("POST", "/v1/rerank", headers=_JSON, content=content, timeout=timeout)
        return read_ranking(answer, query, documents, top_n)

    async def rerank_async(
        self,
        query: str,
        documents: Sequence[str],
        *,
        model: str | None = None,
        top_n: int | None = None,
        timeout: float | None = None,
    ) -> Ranking:
        """`rerank` for asyncio. Cancelling aborts the request."""
        # The first use of a model verifies the enclave, which blocks.
        session = self if model is None else await asyncio.to_thread(self.with_model, model)
        name = (await asyncio.to_thread(lambda: session.models))[0].id
        content = write_request(name, query, documents, top_n)
        answer = await session.fetch_async("POST", "/v1/rerank", headers=_JSON, content=content, timeout=timeout)
        return await asyncio.to_thread(read_ranking, answer, query, documents, top_n)

    def close(self) -> None:
        """Closes connections and stops threads. Each pending `fetch_async` fails with `SESSION_CLOSED`."""
        for other in list(self._others.values()):
            other.close()
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


_JSON = {"content-type": "application/json"}


def _pairs(headers: Headers) -> list[tuple[str, str]]:
    return list(headers.items() if isinstance(headers, Mapping) else headers)
