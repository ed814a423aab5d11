"""What sentence-transformers makes of texts: a line of JSON in, a line of JSON out.

    reference.py MODEL < TEXTS > EMBEDDINGS

A line in is one text as a JSON string. The first line out says which versions answer, the others follow the texts:

    {"computed_with": "sentence-transformers 6.2.0, …", "max_seq_length": 256}
    {"ids": [101, 7592, 102], "embedding": "BASE64"}

Ids are word pieces, special tokens included; an embedding is base64 of little-endian float32. Each text is encoded
alone, so that no padding is involved. Run by any Python from 3.11 on, it makes itself an environment with the pinned
packages (requirements-reference.txt, some gigabytes) under target/, or in CLEARSEAL_REFERENCE_VENV, and goes on there.
"""

import base64
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements-reference.txt"
DEFAULT = HERE.parent.parent / "target" / "reference-venv"


def environment():
    """The environment's Python; packages are installed once for each state of the list."""
    folder = Path(os.environ.get("CLEARSEAL_REFERENCE_VENV", DEFAULT)).resolve()
    python = folder / "bin" / "python"
    installed = folder / "installed.txt"
    wanted = REQUIREMENTS.read_text()
    if not installed.is_file() or installed.read_text() != wanted:
        venv.create(folder, with_pip=True)
        # Standard output belongs to the answers.
        subprocess.run([python, "-m", "pip", "install", "-r", REQUIREMENTS], check=True, stdout=sys.stderr)
        installed.write_text(wanted)
    return folder, python


def answer(model):
    # Libraries print; what the reader parses must stay clean.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdin.reconfigure(encoding="utf-8")

    import sentence_transformers
    import torch
    import transformers

    torch.set_num_threads(1)
    whole = sentence_transformers.SentenceTransformer(model, device="cpu", local_files_only=True)
    versions = (
        f"sentence-transformers {sentence_transformers.__version__}, transformers {transformers.__version__}, "
        f"torch {torch.__version__}, float32, one text at a time"
    )
    print(json.dumps({"computed_with": versions, "max_seq_length": whole.max_seq_length}), file=out)
    for line in sys.stdin:
        text = json.loads(line)
        ids = whole.tokenizer(text, truncation=True, max_length=whole.max_seq_length)["input_ids"]
        row = whole.encode([text], normalize_embeddings=True)[0].astype("<f4")
        print(json.dumps({"ids": ids, "embedding": base64.b64encode(row.tobytes()).decode()}), file=out)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: reference.py MODEL < TEXTS > EMBEDDINGS")
    folder, python = environment()
    if Path(sys.prefix).resolve() == folder:
        answer(sys.argv[1])
    else:
        os.execv(python, [python, __file__, sys.argv[1]])


if __name__ == "__main__":
    main()
