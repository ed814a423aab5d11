"""A simulated service as processes, and a host in front of it that records and changes traffic."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Path(os.environ.get("CLEARSEAL_BIN_DIR", ROOT / "target/release"))
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
FOLDER = os.environ.get("CLEARSEAL_MODEL", str(CACHE / "clearseal/models/all-MiniLM-L6-v2"))
MODEL = "all-MiniLM-L6-v2"


class Service:
    """Enclave and host-proxy; `models` are options of the enclave for other models."""

    def __init__(self, log: Path, models: Sequence[str] = ("--model", FOLDER)) -> None:
        self._log = log
        self._models = models
        self._enclave_port, self.port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._enclave = self._start_enclave()
        enclave = f"tcp:127.0.0.1:{self._enclave_port}"
        self._proxy = self._start("host-proxy", "--listen", f"127.0.0.1:{self.port}", "--enclave", enclave)
        self.wait()

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen([BINARIES / name, *arguments], stdout=log, stderr=log)

    def _start_enclave(self) -> subprocess.Popen[bytes]:
        listen = f"tcp:127.0.0.1:{self._enclave_port}"
        return self._start("enclave-server", "--listen", listen, "--simulate-nsm", *self._models)

    def wait(self) -> None:
        """Waits until the service takes requests."""
        end = time.monotonic() + 120
        while True:
            for process in (self._enclave, self._proxy):
                if process.poll() is not None:
                    raise RuntimeError(f"a server ended:\n{self._log.read_text()}")
            try:
                with urllib.request.urlopen(f"{self.url}/readyz") as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            if time.monotonic() > end:
                raise RuntimeError(f"not ready:\n{self._log.read_text()}")
            time.sleep(0.05)

    def restart_enclave(self) -> None:
        """Kills the enclave, and starts another one with new keys."""
        self._enclave.kill()
        self._enclave.wait()
        self._enclave = self._start_enclave()
        self.wait()

    def policy(self) -> bytes:
        """The development policy, which proves nothing."""
        return self.get("/v1/development-policy")

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path) as answer:
            body: bytes = answer.read()
            return body

    def stop(self) -> None:
        for process in (self._proxy, self._enclave):
            process.terminate()
        for process in (self._proxy, self._enclave):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Host:
    """Forwards to a service, keeps what passed, and may change answers: of the gateway, and by path."""

    def __init__(self, service: Service, certificate: Path | None = None) -> None:
        """Serves over https where a file with certificate and key is given, under the name `localhost`."""
        self.seen: list[tuple[str, bytes]] = []
        self.change: Callable[[bytes], bytes] = lambda answer: answer
        self.changes: dict[str, Callable[[bytes], bytes]] = {}
        self._released = threading.Event()
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                host.seen.append((self.path, bytes(str(self.headers), "latin-1") + body))
                upstream = http.client.HTTPConnection("127.0.0.1", service.port)
                fields = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                upstream.request(self.command, self.path, body, fields)
                answer = upstream.getresponse()
                content = answer.read()
                upstream.close()
                if self.path == "/v1/gateway":
                    content = host.change(content)
                path = self.path.split("?")[0]
                if path in host.changes:
                    content = host.changes[path](content)
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers.get("content-type", ""))
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = forward

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{port}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.url = f"https://localhost:{port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def paths(self) -> list[str]:
        """Requested paths, without queries."""
        return [path.split("?")[0] for path, _ in self.seen]

    def hold(self) -> None:
        """Stops answering requests to the gateway."""

        def wait(answer: bytes) -> bytes:
            self._released.wait()
            return answer

        self.change = wait

    def stop(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()


@dataclass(frozen=True)
class Revocation:
    """Evidence of a simulated enclave under a root whose CAs sign revocation lists for tests."""

    policy: dict[str, Any]
    evidence: bytes
    current: bytes
    """Lists that revoke nothing of the chain."""
    revoking: bytes
    """The same lists, one of which revokes the certificate of the instance."""

    @classmethod
    def sign(cls, evidence: bytes, policy: bytes) -> Revocation:
        """Signs the service's evidence again, and names the root in its policy."""
        program = BINARIES / "revocation-samples"
        output = subprocess.run([program], input=evidence, stdout=subprocess.PIPE, check=True).stdout
        samples = json.loads(output)
        lists = {name: base64.b64decode(samples[name]) for name in ("evidence", "current", "revoking")}
        return cls(policy={**json.loads(policy), "root": {"development": samples["root"]}}, **lists)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service") / "log")
    yield running
    running.stop()


@pytest.fixture
def host(service: Service) -> Iterator[Host]:
    running = Host(service)
    yield running
    running.stop()
