"""Compares an embedding program with the answers that `folders.py` wrote.

    python compare.py FOLDERS [--only GLOB] -- COMMAND…

Runs `COMMAND… FOLDER` for each model folder and each of its prompts; an argument `{}` of the
command is replaced by the folder instead. The program reads `{"texts": […], "prompt_name": null}`
from standard input. It writes `{"dimension": 64, "tokens": [[ids]…], "rows": [[numbers]…],
"engine": "name"}` to standard output, or exits with status 1 and a message on standard error if
it refuses the folder.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SUFFIX = ".expected.json"
TIMEOUT_SECONDS = 300
# A row of this length is empty: a static model returns it for a text without tokens.
EMPTY = 1e-6


@dataclass
class Bounds:
    """Limits beyond which a folder fails."""

    least_cosine: float
    most_difference: float
    most_length: float


@dataclass
class Report:
    """Comparison of one folder."""

    folder: str
    expect: str
    engine: str = ""
    cosine: float | None = None
    difference: float | None = None
    length: float | None = None
    tokens: str = ""
    # The version of sentence-transformers that the rows follow, where versions differ.
    version: str = ""
    refusal: str = ""
    failures: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        if self.failures:
            return "FAILED"
        return "refused" if self.refusal else "matches"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Compares an embedding program with sentence-transformers.",
        epilog="The command follows `--`; the folder replaces `{}`, or is appended.",
    )
    parser.add_argument("folders", type=Path, help="folder that folders.py wrote")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of model folders")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--least-cosine", type=float, default=0.99999, metavar="X")
    parser.add_argument(
        "--most-difference",
        type=float,
        default=math.inf,
        metavar="X",
        help="largest |a-b|/|b| of a row; 3e-5 separates gelu from gelu_new in f32",
    )
    parser.add_argument("--most-length", type=float, default=1e-3, metavar="X")
    own, command = split_arguments(sys.argv[1:])
    arguments = parser.parse_args(own)
    if not command:
        parser.error("name the command after `--`")
    bounds = Bounds(arguments.least_cosine, arguments.most_difference, arguments.most_length)

    names = sorted(path.name.removesuffix(SUFFIX) for path in arguments.folders.glob(f"*{SUFFIX}"))
    names = [name for name in names if fnmatch.fnmatch(name, arguments.only)]
    if not names:
        parser.error(f"{arguments.folders} has no folder `{arguments.only}`")

    width = max(map(len, names))
    print(
        f"{'folder':{width}}  {'outcome':7}  {'engine':20}  {'cosine':>11}  {'difference':>10}"
        f"  {'length':>8}  tokens  message"
    )
    with ThreadPoolExecutor(arguments.jobs) as pool:
        reports = []
        for report in pool.map(
            lambda name: compare_folder(command, arguments.folders, name, bounds), names
        ):
            reports.append(report)
            print(describe_report(report, width), flush=True)
    return summarise(reports)


def split_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Splits at the first `--`; the command may contain others."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def compare_folder(command: list[str], folders: Path, name: str, bounds: Bounds) -> Report:
    expected = json.loads((folders / f"{name}{SUFFIX}").read_text())
    report = Report(name, expected["expect"])
    # sentence-transformers cannot run the folder either: a refusal is the only right answer.
    prompts = [answer["prompt_name"] for answer in expected.get("answers", [{"prompt_name": None}])]
    found = []
    for prompt in prompts:
        request = {"texts": expected.get("texts", ["Hello world"]), "prompt_name": prompt}
        try:
            process = subprocess.run(
                insert_folder(command, str(folders / name)),
                input=json.dumps(request),
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            report.failures.append(f"no answer in {TIMEOUT_SECONDS} s")
            return report
        if process.returncode != 0:
            judge_refusal(report, expected, process, folders / name)
            return report
        if "answers" not in expected:
            report.failures.append(f"answered, but: {expected['error']}")
            return report
        found.append(process.stdout)

    # Versions of sentence-transformers differ on some folders: all rows have to follow one of them.
    references = [expected, *([expected["later"]] if "later" in expected else [])]
    reports = []
    # The scores of a cross-encoder are numbers near one another, which a cosine cannot tell apart.
    most = min(bounds.most_difference, expected.get("most_difference", math.inf))
    bounds = Bounds(bounds.least_cosine, most, bounds.most_length)
    for reference in references:
        report = Report(name, expected["expect"])
        if len(references) > 1:
            report.version = reference["versions"]["sentence_transformers"]
        for output, wanted in zip(found, reference["answers"]):
            try:
                judge_answer(report, wanted, json.loads(output), bounds)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                problem = f"{type(error).__name__}: {error}"
                report.failures.append(f"the answer is malformed: {problem}")
        reports.append(report)
    return min(reports, key=lambda report: len(report.failures))


def insert_folder(command: list[str], folder: str) -> list[str]:
    if "{}" in command:
        return [folder if argument == "{}" else argument for argument in command]
    return [*command, folder]


def judge_refusal(
    report: Report,
    expected: dict[str, Any],
    process: subprocess.CompletedProcess[str],
    folder: Path,
) -> None:
    # The folder's name contains the setting.
    message = " ".join(process.stderr.split()).replace(str(folder), "…").replace(folder.name, "…")
    report.refusal = message or "(no message)"
    if process.returncode != 1:
        report.failures.append(f"exit status {process.returncode}")
    elif report.expect == "match":
        report.failures.append("refused")
    elif not any(name.lower() in message.lower() for name in expected["names"]):
        report.failures.append(f"the refusal names none of {', '.join(expected['names'])}")


def judge_answer(
    report: Report, wanted: dict[str, Any], answer: dict[str, Any], bounds: Bounds
) -> None:
    prompt = f" with prompt {wanted['prompt_name']}" if wanted["prompt_name"] else ""
    fail = report.failures.append
    report.engine = str(answer["engine"])
    dimension = len(wanted["rows"][0])
    rows = answer["rows"]
    if answer["dimension"] != dimension or any(len(row) != dimension for row in rows):
        fail(f"dimension {answer['dimension']}, expected {dimension}")
        return
    if len(rows) != len(wanted["rows"]):
        fail(f"{len(rows)} rows, expected {len(wanted['rows'])}{prompt}")
        return

    report.tokens = report.tokens or "equal"
    for index, (found, ids) in enumerate(zip(answer["tokens"], wanted["tokens"])):
        if found != ids:
            report.tokens = "differ"
            fail(f"tokens of text {index} differ{prompt}: {first_difference(found, ids)}")
            break
    if wanted["tokens"] and len(answer["tokens"]) != len(wanted["tokens"]):
        report.tokens = "differ"
        fail(f"tokens of {len(answer['tokens'])} texts, expected {len(wanted['tokens'])}")

    for index, (row, right) in enumerate(zip(rows, wanted["rows"])):
        length, right_length = measure_length(row), measure_length(right)
        if not math.isfinite(length):
            fail(f"row {index} is not finite{prompt}")
            continue
        if right_length < EMPTY or length < EMPTY:
            if max(length, right_length) >= EMPTY:
                fail(f"row {index} has length {length:.3g}, expected {right_length:.3g}{prompt}")
            continue
        cosine = sum(a * b for a, b in zip(row, right)) / (length * right_length)
        difference = measure_length([a - b for a, b in zip(row, right)]) / right_length
        stretch = abs(length / right_length - 1)
        report.cosine = min(cosine, report.cosine if report.cosine is not None else 1.0)
        report.difference = max(difference, report.difference or 0.0)
        report.length = max(stretch, report.length or 0.0)
        if cosine < bounds.least_cosine:
            fail(f"row {index} has cosine {cosine:.6f}{prompt}")
        elif stretch > bounds.most_length:
            fail(f"row {index} has length {length:.6g}, expected {right_length:.6g}{prompt}")
        elif difference > bounds.most_difference:
            fail(f"row {index} differs by {difference:.1e}{prompt}")


def measure_length(row: list[float]) -> float:
    return math.sqrt(sum(float(value) ** 2 for value in row))


def first_difference(found: list[int], ids: list[int]) -> str:
    for at, (left, right) in enumerate(zip(found, ids)):
        if left != right:
            return f"token {at} is {left}, expected {right} ({len(found)} and {len(ids)} tokens)"
    return f"{len(found)} tokens, expected {len(ids)}"


def describe_report(report: Report, width: int) -> str:
    # Digits beyond 0.99999 show how far a row is from the bound.
    cosine = "" if report.cosine is None else f"{report.cosine:.9f}"
    difference = "" if report.difference is None else f"{report.difference:.1e}"
    length = "" if report.length is None else f"{report.length:.1e}"
    message = "; ".join(report.failures[:2])
    if len(report.failures) > 2:
        message += f"; {len(report.failures) - 2} more"
    if report.version and not report.failures:
        message = f"as sentence-transformers {report.version}"
    if report.refusal:
        message = f"{message}: {report.refusal}" if message else report.refusal
    return (
        f"{report.folder:{width}}  {report.outcome:7}  {report.engine[:20]:20}  {cosine:>11}"
        f"  {difference:>10}  {length:>8}  {report.tokens:6}  {message[:300]}"
    ).rstrip()


def summarise(reports: list[Report]) -> int:
    outcomes = Counter(report.outcome for report in reports)
    engines = Counter(report.engine for report in reports if report.engine)
    failed = [report.folder for report in reports if report.failures]
    print()
    print(
        f"{len(reports)} folders: {outcomes['matches']} match, {outcomes['refused']} refused by"
        f" name, {outcomes['FAILED']} failed"
    )
    wrongly = sum(
        report.outcome == "FAILED" and bool(report.refusal) and report.expect == "match"
        for report in reports
    )
    if wrongly:
        print(f"{wrongly} of the failed are refusals of folders that have to match")
    for engine, count in engines.most_common():
        print(f"{count:4} answered by {engine}")
    if failed:
        print(f"failed: {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
