"""How the package `clearseal` behaves in one Python: `python rows.py URL` in an environment that has it, httpx, gevent and ipykernel with
nbclient. URL is a service with a simulated enclave. Prints one line per row, and exits with 1 if one is wrong.

Not part of `npm test`: README.md has the table.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import platform
import subprocess
import sys
import sysconfig
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import clearseal

BODY = b'{"model":"all-MiniLM-L6-v2","input":"x"}'
JSON = {"content-type": "application/json"}
PATIENCE = 60
failed = False


def report(row: str, value: object, right: bool) -> None:
    global failed
    failed |= not right
    print(f"{row}: {value}{'' if right else '  WRONG'}", flush=True)


def embed(session: clearseal.Session) -> int:
    return session.fetch("POST", "/v1/embeddings", headers=JSON, content=BODY).status


def connect_and_embed(url: str, answers: Any) -> None:
    try:
        with clearseal.connect(url, allow_simulated=True) as session:
            answers.put(embed(session))
    except clearseal.ClearsealError as error:
        answers.put(error.code)


def in_child(method: str, url: str) -> object:
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    child = context.Process(target=connect_and_embed, args=(url, answers))
    child.start()
    try:
        return answers.get(timeout=PATIENCE)
    finally:
        child.join(5)
        child.kill()


def nonces_after_forks(session: clearseal.Session) -> int:
    """Number of different nonces that four forked children send; the parent has used its random state before."""
    seen: list[str] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "nonce=" in self.path:
                seen.append(self.path.split("nonce=")[1].split("&")[0])
            self.send_error(503)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    # Children end without waiting for an answer.
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    embed(session)
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                clearseal.connect(f"http://127.0.0.1:{server.server_port}", allow_simulated=True)
            except clearseal.ClearsealError:
                pass
            os._exit(0)
        os.waitpid(child, 0)
    server.shutdown()
    return len(set(seen)) if len(seen) >= 4 else 0


async def in_a_running_loop(url: str) -> list[int]:
    with clearseal.connect(url, allow_simulated=True) as session:
        statuses = [embed(session)]
        async with session.async_http_client() as client:
            answer = await client.post(session.base_url + "/embeddings", content=BODY, headers=JSON)
            statuses.append(answer.status_code)
        with session.http_client() as client:
            statuses.append(client.post(session.base_url + "/embeddings", content=BODY, headers=JSON).status_code)
    return statuses


GEVENT = """
from gevent import monkey
monkey.patch_all()
import sys, time, gevent, clearseal
ticks = []
def tick():
    while True:
        ticks.append(time.monotonic())
        gevent.sleep(0.001)
ticker = gevent.spawn(tick)
gevent.sleep(0.01)
body = b'{"model":"all-MiniLM-L6-v2","input":"x"}'
with clearseal.connect(sys.argv[1], allow_simulated=True) as session:
    def embed(_):
        return session.fetch("POST", "/v1/embeddings", headers={"content-type": "application/json"}, content=body).status
    before = len(ticks)
    jobs = [gevent.spawn(embed, number) for number in range(8)]
    gevent.joinall(jobs, timeout=60)
    pool = gevent.get_hub().threadpool
    between = len(ticks)
    pooled = [pool.spawn(embed, number) for number in range(8)]
    gevent.joinall(pooled, timeout=60)
print([job.value for job in jobs] == [200] * 8, [job.value for job in pooled] == [200] * 8, between - before, len(ticks) - between)
"""


def notebook(url: str) -> object:
    import nbclient
    import nbformat

    code = f"import clearseal\nsession = clearseal.connect({url!r}, allow_simulated=True)\n"
    code += "client = session.async_http_client()\n"
    code += f"answer = await client.post(session.base_url + '/embeddings', content={BODY!r}, headers={JSON!r})\n"
    code += f"[answer.status_code, session.http_client().post(session.base_url + '/embeddings', content={BODY!r}, headers={JSON!r}).status_code]"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, timeout=PATIENCE).execute()
    return book.cells[0].outputs[-1]["data"]["text/plain"]


def main(url: str) -> None:
    free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    print(platform.python_implementation(), platform.python_version(), "free-threaded" if free else "", platform.libc_ver())
    with clearseal.connect(url, allow_simulated=True) as session:
        report("session", embed(session), True)
        for method in multiprocessing.get_all_start_methods():
            answer = in_child(method, url)
            report(f"a child made by {method} connects", answer, answer == 200)
        nonces = nonces_after_forks(session)
        report("nonces of four forked children", nonces, nonces == 4)
        report("the parent afterwards", embed(session), embed(session) == 200)
    statuses = asyncio.run(in_a_running_loop(url))
    report("in a running loop", statuses, statuses == [200] * 3)
    try:
        shown = notebook(url)
        report("Jupyter", shown, shown == "[200, 200]")
    except ImportError as error:
        print("Jupyter: not tried:", error)
    begun = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", GEVENT, url], capture_output=True, text=True, timeout=PATIENCE * 3)
    if "No module named 'gevent'" in ended.stderr:
        print("gevent: not tried")
    else:
        report("gevent", ended.stdout.strip() or ended.stderr[-300:], ended.stdout.startswith("True True"))
    print(f"{time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1])
    sys.exit(failed)
