#!/usr/bin/env python3
"""Computes reference embeddings for the engine, with sentence-transformers on the same weights.

    pip install sentence-transformers
    python make_reference.py MODEL_DIR > reference.json

Each text is encoded alone, so that no padding is involved. Embeddings are base64 of little-endian float32.
"""

import base64
import json
import platform
import sys

import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer

TEXTS = [
    "",
    " ",
    "a",
    "?",
    "\u0000\u0007\u200b",
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog.",
    "the quick brown fox jumps over the lazy dog",
    "Caf\u00e9 d\u00e9j\u00e0 vu na\u00efve r\u00e9sum\u00e9 \u2014 \u201cquoted\u201d \u2026",
    "Cafe\u0301 with a combining accent",
    "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family \U0001f1e9\U0001f1ea flag \U0001f44d\U0001f3fd",
    "\u4eba\u5de5\u667a\u80fd\u6b63\u5728\u6539\u53d8\u4e16\u754c\u3002",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3068\u30ab\u30bf\u30ab\u30ca\u3092\u57cb\u3081\u8fbc\u3080",
    "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc744 \uc784\ubca0\ub529\ud569\ub2c8\ub2e4",
    "\u0627\u0644\u0630\u0643\u0627\u0621 \u0627\u0644\u0627\u0635\u0637\u0646\u0627\u0639\u064a \u064a\u063a\u064a\u0631 \u0627\u0644\u0639\u0627\u0644\u0645",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902 \u090f\u0915 \u0935\u093e\u0915\u094d\u092f",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043a\u0430\u043a \u0434\u0435\u043b\u0430? \u0401\u043b\u043a\u0430 \u0438 \u0439\u043e\u0433\u0443\u0440\u0442.",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "[CLS] literal [SEP] special [MASK] tokens [PAD] in text",
    "https://example.org/a/very/long/path?with=query&and=more#fragment 1234567890 3.14159e-10",
    "x" * 150,
    "Supercalifragilisticexpialidocious antidisestablishmentarianism " * 6,
    "Patient reports chest pain radiating to the left arm, onset two hours ago; history of hypertension and type 2 diabetes. "
    * 4,
    "An enclave proves which code will read a text before the text is sent. " * 40,
    " \t\n".join(["tokens", "with", "odd", "spacing"]) + "   " * 400 + "and a late word",
]


def main() -> None:
    model = SentenceTransformer(sys.argv[1], device="cpu")
    torch.set_num_threads(1)
    items = []
    for text in TEXTS:
        vector = model.encode([text], normalize_embeddings=True)[0].astype("<f4")
        ids = model.tokenizer(text, truncation=True, max_length=model.max_seq_length)["input_ids"]
        items.append({"text": text, "ids": ids, "embedding": base64.b64encode(vector.tobytes()).decode()})
    record = {
        "computed_with": f"sentence-transformers {sentence_transformers.__version__}, "
        f"transformers {transformers.__version__}, torch {torch.__version__}, float32, one text at a time",
        "python": platform.python_version(),
        "max_seq_length": model.max_seq_length,
    }
    # One line for each item, so that a change of one text changes one line.
    lines = ",\n".join("  " + json.dumps(item) for item in items)
    print(json.dumps(record, indent=1)[:-2] + ',\n "items": [\n' + lines + "\n ]\n}")


if __name__ == "__main__":
    main()
