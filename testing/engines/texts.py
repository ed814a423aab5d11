"""Texts of the comparison: `python texts.py OUT.json ROWS`.

`hard`: a thousand texts in many scripts, most of them nonsense, for tokenizers. `rows`: sentences of the documentation of torch, scipy,
scikit-learn and numpy, for an index. `queries`: a thousand more of them.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import pathlib
import random
import re
import sys

BLOCKS = [
    (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x17F), (0x1E00, 0x1EFF), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF),
    (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3), (0x300, 0x36F), (0x2000, 0x206F), (0x2190, 0x22FF), (0x1F300, 0x1F6FF), (0x20000, 0x2A6DF),
    (0xE0000, 0xE007F),
]  # fmt: skip
WORDS = (
    "a the enclave reads text only after naïve café coöperate résumé Straße 2024 3.14159 e-mail İstanbul ﬁle ſ Ⅷ ½ "
    "https://example.org/path?x=1 don't O'Neill C++ #tag @name 50% $12.50 antidisestablishmentarianism x86_64 [MASK] "
    '[CLS] ##ing hello-world semi;colon (parentheses) "quoted" 人工智能 こんにちは 안녕하세요 здравствуйте שלום مرحبا'
).split()
SPECIAL = [
    "", " ", "\t\n\r", "a", "?", "é", "e\u0301", "人", "\U0001f600", "\u0000\u0007\u001b\u200b\ufeff", "\ufffd", "\ue000",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd", "[CLS] [SEP] [PAD] [UNK] [MASK]",
    "a" * 99, "a" * 100, "a" * 101, "word\u00a0word\u2028word\u3000word", "co\u00adoperate", "ÀÉÎÕÜ", "ΑΣ", "ǅ", "ẞ",
]  # fmt: skip


def hard(count: int) -> list[str]:
    draw = random.Random(2026)

    def block() -> str:
        first, last = draw.choice(BLOCKS)
        return "".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 8)))

    texts = list(SPECIAL)
    while len(texts) < count:
        kind = len(texts) % 4
        if kind == 0:
            texts.append(" ".join(block() for _ in range(draw.randint(1, 12))))
        elif kind == 1:
            texts.append(" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 40))))
        elif kind == 2:
            texts.append("".join(chr(draw.choice([draw.randint(0, 0xD7FF), draw.randint(0xE000, 0x10FFFF)])) for _ in range(20)))
        else:
            # Around and beyond the length at which the model truncates.
            texts.append(" ".join(draw.choice(WORDS) for _ in range(draw.choice([20, 100, 200, 300]))))
    return texts


def sentences() -> list[str]:
    """Sentences of docstrings, each once."""
    found: dict[str, None] = {}
    for package in ("torch", "scipy", "sklearn", "numpy"):
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None
        for path in sorted(pathlib.Path(spec.origin).parent.rglob("*.py")):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                    text = " ".join((ast.get_docstring(node) or "").split())
                    for sentence in re.split(r"(?<=[a-z)]\.) ", text):
                        if 30 <= len(sentence) <= 300 and ">>>" not in sentence and "----" not in sentence:
                            found.setdefault(sentence)
    texts = list(found)
    random.Random(51).shuffle(texts)
    return texts


if __name__ == "__main__":
    rows = int(sys.argv[2])
    prose = sentences()
    print(f"{len(prose)} sentences", file=sys.stderr)
    texts = {"hard": hard(1000), "queries": prose[:1000], "rows": prose[1000 : 1000 + rows]}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(texts), encoding="utf-8")
