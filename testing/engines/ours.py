"""Embeds texts with Clearseal's engine: `python ours.py FOLDER TEXTS.json OUT -- COMMAND…` (the folder is appended).

COMMAND is `target/release/examples/embed` of the crate `engine`; `{}` in it is replaced by the folder.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy

folder, texts, out = sys.argv[1:4]
command = sys.argv[5:]
command = [folder if part == "{}" else part for part in command] if "{}" in command else [*command, folder]
rows: dict[str, numpy.ndarray] = {}
facts: dict[str, object] = {}
for name, part in json.loads(pathlib.Path(texts).read_text(encoding="utf-8")).items():
    request = json.dumps({"texts": part, "prompt_name": None})
    answer = json.loads(subprocess.run(command, input=request, capture_output=True, check=True, text=True).stdout)
    rows[name] = numpy.array(answer["rows"], dtype=numpy.float32)
    facts["versions"] = {"engine": answer["engine"]}
    if name == "hard":
        facts["tokens"] = answer["tokens"]
numpy.savez(f"{out}.npz", **rows)
pathlib.Path(f"{out}.json").write_text(json.dumps(facts))
