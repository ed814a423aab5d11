"""Kills the job's driver, workers and replicas while it runs, and compares the output row by row with that of an undisturbed run.

    CLEARSEAL_BIN_DIR=target/release python3 examples/ray/check.py --rows 3000 --engines ray,dask,plain

Needs Node, HAProxy and the built servers; with the command line tool `clearseal` it also verifies proofs.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
# Part of many texts: a file that contains it contains a text.
MARKER = b"sleeps on the sofa"
# Process name of each engine's workers. `plain` has no separate workers.
WORKERS = {"ray": "ray::MapWorker", "dask": "spawn_main"}


class Fleet:
    """Replicas behind HAProxy."""

    def __init__(self, replicas: int) -> None:
        command = ["node", HERE / "fleet.mjs", str(replicas)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline()
        if not line:
            sys.exit("the fleet did not start")
        started = json.loads(line)
        self.url, self.policy = started["url"], json.dumps(started["policy"])
        self._replicas = cycle(range(replicas))

    def restart_replica(self) -> None:
        """Kills one replica, and restarts it with new keys."""
        self._process.stdin.write(f"{next(self._replicas)}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)


class Run:
    """Jobs over one fleet and one source, in one folder."""

    def __init__(self, folder: Path, fleet: Fleet, options: argparse.Namespace) -> None:
        self.folder, self.fleet, self.options = folder, fleet, options
        self.source, self.policy, self.log = folder / "texts.parquet", folder / "policy.json", folder / "log"
        self.policy.write_text(fleet.policy, encoding="utf-8")
        subprocess.run([sys.executable, HERE / "texts.py", str(options.rows), self.source], check=True)
        self.blocks = -(-options.rows // options.block_rows)
        self.seen: dict[int, set[int]] = {}
        """Processes of each driver."""

    def command(self, engine: str, output: Path) -> list[str]:
        command = [sys.executable, "-B", HERE / "embed.py", self.source, output]
        command += ["--url", self.fleet.url, "--policy", self.policy, "--accept-simulated", "--engine", engine]
        return [str(it) for it in [*command, "--workers", self.options.workers, "--block-rows", self.options.block_rows]]

    def start(self, engine: str, output: Path) -> subprocess.Popen[bytes]:
        # Short, because it is a prefix of Ray's socket paths.
        environment = {**os.environ, "RAY_TMPDIR": str(self.folder)}
        with self.log.open("ab") as log:
            return subprocess.Popen(self.command(engine, output), stdout=log, stderr=log, env=environment)

    def calm(self) -> Path:
        output = self.folder / "calm"
        expect(self.start("plain", output).wait() == 0, self.log.read_text())
        return output

    def harmed(self, engine: str) -> Path:
        """Kills and restarts a job until it ends by itself."""
        output = self.folder / f"by-{engine}"
        chance = random.Random(self.options.seed)
        kinds = cycle(["worker", "driver", "replica"] if engine in WORKERS else ["driver", "replica"])
        # Spread over the whole job, at any point within a block.
        moments = [(turn + 1) * self.blocks // (self.options.kills + 1) for turn in range(self.options.kills)]
        done: dict[str, tuple[int, int]] = {}
        counts: dict[str, int] = {}
        driver = self.start(engine, output)
        for moment, kind in zip(moments, islice(kinds, len(moments))):
            wait_for(lambda: driver.poll() is not None or len(files(output)) >= moment, 3600)
            time.sleep(chance.uniform(0, 0.5))
            if driver.poll() is not None:
                break
            family = descendants(driver.pid)
            self.seen.setdefault(driver.pid, set()).update(family)
            # A finished file is never written again.
            for path in files(output):
                was = done.setdefault(path.name, identity(path))
                expect(was == identity(path), f"{path.name} was written twice")
            if kind == "replica":
                self.fleet.restart_replica()
            elif kind == "driver":
                driver.kill()
                driver.wait()
                driver = self.start(engine, output)
            else:
                workers = [pid for pid in family if WORKERS[engine] in name(pid)]
                if not workers:
                    continue
                os.kill(chance.choice(workers), signal.SIGKILL)
            counts[kind] = counts.get(kind, 0) + 1
        expect(driver.wait() == 0, self.log.read_text()[-4000:])
        for path in files(output):
            expect(done.get(path.name, identity(path)) == identity(path), f"{path.name} was written twice")
        print(f"{engine}: killed {', '.join(f'{kind} {count} times' for kind, count in counts.items())}", flush=True)
        return output

    def compare(self, output: Path, calm: Path) -> None:
        """Checks that each row of the source occurs once, in order, with the vector of the undisturbed run."""
        source = pq.read_table(self.source)
        found = sorted(path.name for path in output.iterdir() if path.name != "job.json")
        wanted = {f"block-{block:06}.parquet" for block in range(self.blocks)}
        expect(set(found) == wanted, f"other files: {set(found) ^ wanted}")
        row = 0
        for file in found:
            got, wanted = (pq.read_table(folder / file) for folder in (output, calm))
            expect(got["id"].equals(source["id"].slice(row, len(got))), f"{file}: keys differ from the source")
            for column in ("id", "embedding", "tokens", "truncated"):
                expect(got[column].equals(wanted[column]), f"{file}: `{column}` differs from the undisturbed run")
            vectors = pa.concat_arrays(got["embedding"].chunks).flatten()
            expect(vectors.null_count == 0 and len(vectors) == 384 * len(got), f"{file}: a vector is missing")
            row += len(got)
        expect(row == self.options.rows, f"{row} rows")
        print(f"{output.name}: all {row} rows, each once and with the vector of the undisturbed run", flush=True)

    def prove(self, output: Path) -> None:
        """Verifies random rows with the command line tool, and checks that it refuses two whose vectors were swapped."""
        places = os.pathsep.join(filter(None, [os.environ.get("CLEARSEAL_BIN_DIR"), os.environ["PATH"]]))
        terminal = shutil.which("clearseal", path=places)
        if terminal is None:
            print(f"{output.name}: proofs were not verified: the command line tool `clearseal` was not found", flush=True)
            return
        keys = pq.read_table(self.source, columns=["id"])["id"].to_pylist()
        some = random.Random(self.options.seed).sample(keys, min(self.options.proofs, len(keys)))
        subprocess.run([sys.executable, "-B", HERE / "rows.py", self.source, output, *some], check=True, cwd=self.folder)

        def verify() -> subprocess.CompletedProcess[str]:
            command = [terminal, "verify", "vector", "rows.proofs.jsonl", "rows.vectors.jsonl", "--policy", self.policy]
            return subprocess.run([*command, "--accept-simulated"], cwd=self.folder, capture_output=True, text=True)

        accepted = verify()
        expect(accepted.returncode == 0 and accepted.stdout.count(": simulated;") == len(some), accepted.stdout + accepted.stderr)
        vectors = self.folder / "rows.vectors.jsonl"
        first, second, *rest = map(json.loads, vectors.read_text(encoding="utf-8").splitlines())
        first["embedding"], second["embedding"] = second["embedding"], first["embedding"]
        vectors.write_text("".join(json.dumps(row) + "\n" for row in [first, second, *rest]), encoding="utf-8")
        refused = verify()
        expect(refused.returncode == 1 and refused.stdout.count("RESPONSE_HASH_MISMATCH") == 2, "swapped vectors are accepted")
        print(f"{output.name}: {len(some)} proofs verified, both swapped vectors refused", flush=True)

    def refusals(self, output: Path) -> None:
        """Checks invalid invocations."""

        def ended(command: list[str]) -> tuple[int, str]:
            run = subprocess.run(command, capture_output=True, text=True)
            return run.returncode, run.stderr

        fresh = self.command("plain", self.folder / "refused")
        status, errors = ended([it for it in fresh if it != "--accept-simulated"])
        expect(status == 1 and "SIMULATION_REFUSED" in errors, errors)
        status, errors = ended([it for it in fresh if it not in ("--policy", str(self.policy))])
        expect(status == 2 and "--policy" in errors, errors)
        status, errors = ended([*self.command("plain", output), "--block-rows=7"])
        expect(status == 2 and "begun with another block_rows" in errors, errors)
        with (output / "job.json").open(encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            status, errors = ended(self.command("plain", output))
            expect(status == 2 and "another process works on" in errors, errors)
        twice = self.folder / "twice.parquet"
        pq.write_table(pa.table({"id": ["a", "a"], "text": ["one", "two"]}), twice)
        other = self.command("plain", self.folder / "twice")
        status, errors = ended([str(twice) if it == str(self.source) else it for it in other])
        expect(status == 2 and "is not a key" in errors, errors)
        expect(not files(self.folder / "refused") + files(self.folder / "twice"), "something was written nevertheless")
        print("refused: no policy, simulation not allowed, duplicate key, second driver, other block size", flush=True)

    def logs(self) -> None:
        """Checks that logs and temporary files of the engines contain no text."""
        kept = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        ours = {".parquet", ".jsonl"}
        logs = [path for path in kept if path.suffix not in ours]
        for path in logs:
            expect(MARKER not in path.read_bytes(), f"{path} contains a text")
        print(f"no text in {len(logs)} logs and temporary files", flush=True)

    def leave_nothing(self) -> None:
        """Checks that the processes of killed drivers end by themselves."""
        left = {pid for family in self.seen.values() for pid in family}

        def gone() -> bool:
            left.intersection_update({pid for pid in left if alive(pid)})
            return not left

        if not wait_for(gone, 60, fail=False):
            names = [name(pid) for pid in left]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            sys.exit(f"processes outlived their driver: {names}")
        print("every process of a killed driver has ended", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills jobs, and compares their output row by row with that of an undisturbed run.")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--block-rows", type=int, default=200)
    parser.add_argument("--engines", default="ray,dask,plain")
    parser.add_argument("--kills", type=int, default=6, help="kills of drivers, workers and replicas per engine")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--proofs", type=int, default=200, help="rows per engine to verify with the command line tool")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fleet = Fleet(options.replicas)
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    try:
        run = Run(folder, fleet, options)
        calm = timed("calm", options.rows, run.calm)
        for engine in options.engines.split(","):
            output = timed(engine, options.rows, lambda engine=engine: run.harmed(engine))
            run.compare(output, calm)
            run.prove(output)
        run.refusals(calm)
        run.leave_nothing()
        run.logs()
    finally:
        fleet.close()
        shutil.rmtree(folder, ignore_errors=True)


def timed(what: str, rows: int, work):
    begun = time.monotonic()
    result = work()
    seconds = time.monotonic() - begun
    print(f"{what}: {seconds:.0f} s, {rows / seconds:.0f} rows per second, including start-up", flush=True)
    return result


def files(folder: Path) -> list[Path]:
    return list(folder.glob("block-*.parquet"))


def identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def descendants(pid: int) -> set[int]:
    """All descendants of `pid`."""
    found = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in map(int, thread.read_text().split()):
                found |= {child} | descendants(child)
        except OSError:
            pass  # It has ended in the meantime.
    return found


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """False for a zombie too, which has no command line."""
    return bool(name(pid))


def wait_for(condition, seconds: float, fail: bool = True) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            expect(not fail, "timed out")
            return False
        time.sleep(0.02)
    return True


def expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)


if __name__ == "__main__":
    main()
