"""A client of the Python package that works until its input ends, for `clients.mjs`: arguments are URL, policy, texts and concurrency.

Prints a line of JSON for each request: the text's number, its embedding in base64 and its duration in milliseconds, or the error.
"""

import json
import sys
import threading
import time
from pathlib import Path

import clearseal

MODEL = "all-MiniLM-L6-v2"


def main() -> None:
    url, policy, texts, concurrency = sys.argv[1:]
    inputs = json.loads(Path(texts).read_text())
    over = threading.Event()
    printing = threading.Lock()

    def say(**line: object) -> None:
        with printing:
            print(json.dumps(line), flush=True)

    def ask(session: clearseal.Session, number: int) -> None:
        begun = time.perf_counter()
        body = {"model": MODEL, "input": inputs[number % len(inputs)], "encoding_format": "base64"}
        headers = {"content-type": "application/json"}
        try:
            answer = session.fetch("POST", "/v1/embeddings", headers=headers, content=json.dumps(body).encode())
        except clearseal.ClearsealError as error:
            say(failed=error.code)
            time.sleep(0.05)
            return
        if answer.status != 200:
            say(failed=f"HTTP_{answer.status}")
            return
        ms = (time.perf_counter() - begun) * 1000
        say(number=number, embedding=json.loads(answer.content)["data"][0]["embedding"], ms=ms)

    def work(session: clearseal.Session, worker: int) -> None:
        number = worker
        while not over.is_set():
            ask(session, number)
            number += int(concurrency)

    with clearseal.connect(url, policy=Path(policy), allow_simulated=True) as session:
        workers = [threading.Thread(target=work, args=(session, worker)) for worker in range(int(concurrency))]
        for worker in workers:
            worker.start()
        sys.stdin.read()
        over.set()
        for worker in workers:
            worker.join()


main()
