"""Sessions: refusals, sealing, renewal and closing."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import MODEL, Host, Service, free_port

import clearseal

SECRET = b"a line that only the enclave reads"
BODY = b'{"model":"%s","input":"%s"}' % (MODEL.encode(), SECRET)
JSON = {"content-type": "application/json"}


def embed(session: clearseal.Session, body: bytes = BODY) -> int:
    return session.fetch("POST", "/v1/embeddings", headers=JSON, content=body).status


def test_nothing_is_sent_to_what_is_not_verified(host: Host, service: Service) -> None:
    with pytest.raises(clearseal.ClearsealError) as missing:
        clearseal.connect(host.url)
    assert missing.value.code == "POLICY_MISSING"
    with pytest.raises(clearseal.Refused) as simulated:
        clearseal.connect(host.url, policy=service.policy())
    assert simulated.value.code == "SIMULATION_REFUSED"
    assert simulated.value.report.verdict == "refused"
    assert len(simulated.value.report.checks) > 20
    assert set(host.paths) == {"/v1/attestation", "/v1/crls"}


@pytest.mark.parametrize("allow", [False, True])
def test_another_root_is_refused_whatever_is_allowed(host: Host, service: Service, allow: bool) -> None:
    policy = {**json.loads(service.policy()), "root": "aws-nitro-enclaves-g1"}
    with pytest.raises(clearseal.Refused) as refused:
        clearseal.connect(host.url, policy=policy, allow_simulated=allow)
    assert refused.value.code == "ROOT_NOT_PINNED"
    assert set(host.paths) == {"/v1/attestation", "/v1/crls"}


def test_a_policy_in_every_form(service: Service, tmp_path: Path) -> None:
    text = service.policy()
    file = tmp_path / "policy.json"
    file.write_bytes(text)
    for policy in (text, text.decode(), json.loads(text), file, str(file)):
        with clearseal.connect(service.url, policy=policy, allow_simulated=True) as session:
            assert session.verdict == "simulated"
    with pytest.raises(clearseal.ClearsealError) as unusable:
        clearseal.connect(service.url, policy=b"{}")
    assert unusable.value.code == "POLICY_UNREADABLE"


def test_text_is_on_no_wire_and_an_api_key_stays_here(host: Host) -> None:
    with clearseal.connect(host.url, allow_simulated=True) as session:
        assert embed(session) == 200
        with session.http_client() as client:
            fields = {**JSON, "authorization": "Bearer sk-secret"}
            answer = client.post(session.base_url + "/embeddings", content=BODY, headers=fields)
            sent = answer.extensions["clearseal"].bundle(content=True)
        assert answer.status_code == 200
    assert "/v1/gateway" in host.paths and "/v1/embeddings" not in host.paths
    passed = b"".join(body for _, body in host.seen)
    assert SECRET not in passed and b"sk-secret" not in passed
    # The decrypted request has no API key either.
    request = json.loads(sent)["request"].encode()
    opened = base64.urlsafe_b64decode(request + b"=" * (-len(request) % 4))
    assert SECRET in opened and b"sk-secret" not in opened


def test_a_changed_answer_is_no_answer(host: Host) -> None:
    with clearseal.connect(host.url, allow_simulated=True) as session:
        for change in (lambda it: it[:-1], lambda it: it[:-1] + bytes([it[-1] ^ 1]), lambda it: b""):
            host.change = change
            with pytest.raises(clearseal.ClearsealError) as refused:
                embed(session)
            assert refused.value.code and refused.value.remedy
            assert SECRET.decode() not in str(refused.value)
        host.change = lambda it: it
        assert embed(session) == 200


def test_the_enclave_may_be_killed(service: Service) -> None:
    with clearseal.connect(service.url, allow_simulated=True) as session:
        (before,) = session.upstreams
        assert embed(session) == 200
        service.restart_enclave()
        assert embed(session) == 200
        (after,) = session.upstreams
        assert before.valid_until and after.valid_until and before.valid_until < after.valid_until


def test_the_next_service_is_asked_where_one_fails(service: Service) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with clearseal.connect([dead, service.url], allow_simulated=True) as session:
            assert embed(session) == 200
            assert [it.state for it in session.upstreams] == ["unreachable", "simulated"]
        with pytest.raises(clearseal.Unreachable) as no_one:
            clearseal.connect(dead, allow_simulated=True)
        assert (no_one.value.code, no_one.value.status) == ("NETWORK", None)


def test_one_seal_for_several_enclaves(host: Host, tmp_path: Path) -> None:
    other = Service(tmp_path / "log")
    try:
        urls = [host.url, other.url]
        with clearseal.connect(urls, allow_simulated=True, candidates=2) as session:
            answers = [session.fetch("POST", "/v1/embeddings", headers=JSON, content=BODY) for _ in range(8)]
            signers = {json.loads(answer.bundle() or "{}")["document"] for answer in answers}
            assert len(signers) == 2, "each answers some, under its own document"
            sealed = [fields for path, fields in host.seen if path == "/v1/gateway"]
            assert sealed and all(b"message/clearseal-candidates-req" in fields for fields in sealed)
            before = host.paths.count("/v1/attestation")
            other.stop()
            assert [embed(session) for _ in range(4)] == [200] * 4
            assert host.paths.count("/v1/attestation") == before, "no new attestation"
    finally:
        other.stop()
    for candidates in (0, 9):
        with pytest.raises(ValueError, match="1 to 8"):
            clearseal.connect(host.url, allow_simulated=True, candidates=candidates)


def test_many_threads_share_a_session(service: Service) -> None:
    with clearseal.connect(service.url, allow_simulated=True) as session, ThreadPoolExecutor(32) as pool:

        def rows(text: bytes) -> bytes:
            answer = session.fetch("POST", "/v1/embeddings", headers=JSON, content=text)
            # Without the commitment, whose salt differs in each request.
            return answer.content.split(b'"object"', 1)[1]

        texts = [b'{"model":"all-MiniLM-L6-v2","input":"text %d"}' % number for number in range(8)]
        alone = [rows(text) for text in texts]
        assert len(set(alone)) == 8
        assert list(pool.map(rows, texts * 16)) == alone * 16


def test_what_the_enclave_refuses_is_an_answer(service: Service) -> None:
    with clearseal.connect(service.url, allow_simulated=True) as session:
        answer = session.fetch("POST", "/v1/embeddings", headers=JSON, content=b"{}")
        assert answer.status == 400 and b"REQUEST_INVALID" in answer.content
        assert not answer.has_receipt and answer.bundle() is None
        with pytest.raises(ValueError, match="the path"):
            session.fetch("GET", "no path at all\n")


def test_a_closed_session_says_so(service: Service) -> None:
    session = clearseal.connect(service.url, allow_simulated=True)
    session.close()
    session.close()
    with pytest.raises(clearseal.ClearsealError) as closed:
        embed(session)
    assert closed.value.code == "SESSION_CLOSED"


def test_closing_ends_what_is_waited_for(host: Host) -> None:
    async def main(session: clearseal.Session) -> None:
        fetches = [session.fetch_async("GET", "/v1/models") for _ in range(3)]
        tasks = [asyncio.create_task(fetch) for fetch in fetches]
        while host.paths.count("/v1/gateway") < len(tasks):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(session.close)
        for task in tasks:
            with pytest.raises(clearseal.ClearsealError) as closed:
                await asyncio.wait_for(task, 10)
            assert closed.value.code == "SESSION_CLOSED"
        with pytest.raises(clearseal.ClearsealError) as late:
            await session.fetch_async("GET", "/v1/models")
        assert late.value.code == "SESSION_CLOSED"

    session = clearseal.connect(host.url, allow_simulated=True)
    host.hold()
    asyncio.run(asyncio.wait_for(main(session), 60))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_is_told_to_connect_again(service: Service) -> None:
    session = clearseal.connect(service.url, allow_simulated=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            embed(session)
        except clearseal.ClearsealError as error:
            status = 0 if error.code == "SESSION_FORKED" else 2
        finally:
            session.close()
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert embed(session) == 200
    session.close()


def test_ctrl_c_ends_a_call_that_waits() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        # A shell that starts the tests in the background makes them ignore the signal.
        program = (
            "import clearseal, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
            f"clearseal.connect('{address}', allow_simulated=True, timeout=3600)"
        )
        child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
        connection, _ = silent.accept()
        child.send_signal(signal.SIGINT)
        # Without the check for signals it would wait for an hour.
        _, error = child.communicate(timeout=60)
        connection.close()
        assert b"KeyboardInterrupt" in error


def test_a_cancelled_request_is_given_up(service: Service) -> None:
    async def main(session: clearseal.Session) -> None:
        request = session.fetch_async("POST", "/v1/embeddings", headers=JSON, content=BODY)
        task = asyncio.create_task(request)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        answer = await session.fetch_async("GET", "/v1/models")
        assert answer.status == 200

    with clearseal.connect(service.url, allow_simulated=True) as session:
        # A session survives the end of an event loop.
        asyncio.run(main(session))
        asyncio.run(main(session))


def test_a_time_limit_ends_a_call(host: Host) -> None:
    with clearseal.connect(host.url, allow_simulated=True) as session:
        host.hold()
        with pytest.raises(clearseal.Unreachable) as late:
            session.fetch("GET", "/v1/models", timeout=0.1)
        assert late.value.code == "TIMEOUT"
        with pytest.raises(ValueError, match="timeout"):
            session.fetch("GET", "/v1/models", timeout=-1)


def test_exceptions_cross_processes(service: Service) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    arguments: list[tuple[str, dict[str, Any]]] = [
        (dead, {"allow_simulated": True}),
        (service.url, {}),
        (service.url, {"policy": service.policy()}),
    ]
    for url, options in arguments:
        with pytest.raises(clearseal.ClearsealError) as raised:
            clearseal.connect(url, **options)
        copy = pickle.loads(pickle.dumps(raised.value))
        assert type(copy) is type(raised.value)
        assert (copy.code, copy.remedy, str(copy)) == (raised.value.code, raised.value.remedy, str(raised.value))


@pytest.fixture
def private_authority(tmp_path: Path) -> Path:
    """A certificate for `localhost` that signs itself, with its key."""
    file = tmp_path / "authority.pem"
    request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=CA:FALSE"]
    subprocess.run(
        ["openssl", *request.split(), *names, "-keyout", file, "-out", tmp_path / "certificate.pem"],
        check=True,
        capture_output=True,
    )
    file.write_bytes((tmp_path / "certificate.pem").read_bytes() + file.read_bytes())
    return file


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_a_private_authority_is_trusted_by_its_variable(service: Service, private_authority: Path) -> None:
    host = Host(service, private_authority)
    program = """
import sys, clearseal
try:
    with clearseal.connect(sys.argv[1], policy=sys.argv[2], allow_simulated=True) as session:
        print(session.verdict)
except clearseal.ClearsealError as error:
    print(error.code)
"""
    policy = service.policy().decode()

    def connect(**variables: str) -> str:
        # A variable of this process, such as a proxy's, does not decide the test.
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        kept.pop("SSL_CERT_FILE", None)
        command = [sys.executable, "-c", program, host.url, policy]
        return subprocess.run(command, env=kept | variables, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()

    try:
        assert connect() == "CERTIFICATE_UNTRUSTED"
        assert not host.paths
        assert connect(SSL_CERT_FILE=str(private_authority)) == "simulated"
        assert connect(SSL_CERT_FILE=str(private_authority) + ".missing") == "AUTHORITIES_UNUSABLE"
    finally:
        host.stop()
