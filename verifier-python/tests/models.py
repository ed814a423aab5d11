"""Folders of small models with random weights, as options of enclave-server."""

from __future__ import annotations

import json
import math
import os
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

HIDDEN = 32
POSITIONS = 64
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,:?!'-"
VOCABULARY = [*SPECIAL, *LETTERS, *("##" + letter for letter in LETTERS)]
Shapes = dict[str, list[int]]


def embedding(parent: Path, name: str, clearseal: Path) -> list[str]:
    """A BERT of one layer with mean pooling."""
    folder = _write(parent / name, bert(), architectures=["BertModel"])
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    listed = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (kind, path) in enumerate(modules)
    ]
    _json(folder / "modules.json", listed)
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True}
    _json(folder / "1_Pooling/config.json", pooling)
    return _lock(folder, name, clearseal)


def reranking(parent: Path, name: str, clearseal: Path) -> list[str]:
    """A cross-encoder of the same shape."""
    shapes = {f"bert.{tensor}": shape for tensor, shape in bert().items()}
    shapes |= dense("bert.pooler.dense", HIDDEN, HIDDEN) | dense("classifier", 1, HIDDEN)
    labels = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    folder = _write(parent / name, shapes, architectures=["BertForSequenceClassification"], **labels)
    return _lock(folder, name, clearseal)


def dense(name: str, outputs: int, inputs: int) -> Shapes:
    return {f"{name}.weight": [outputs, inputs], f"{name}.bias": [outputs]}


def norm(name: str) -> Shapes:
    return {f"{name}.weight": [HIDDEN], f"{name}.bias": [HIDDEN]}


def bert() -> Shapes:
    layer = "encoder.layer.0"
    shapes = {
        "embeddings.word_embeddings.weight": [len(VOCABULARY), HIDDEN],
        "embeddings.position_embeddings.weight": [POSITIONS, HIDDEN],
        "embeddings.token_type_embeddings.weight": [2, HIDDEN],
        **norm("embeddings.LayerNorm"),
        **norm(f"{layer}.attention.output.LayerNorm"),
        **norm(f"{layer}.output.LayerNorm"),
        **dense(f"{layer}.attention.output.dense", HIDDEN, HIDDEN),
        **dense(f"{layer}.intermediate.dense", 2 * HIDDEN, HIDDEN),
        **dense(f"{layer}.output.dense", HIDDEN, 2 * HIDDEN),
    }
    for part in ("query", "key", "value"):
        shapes |= dense(f"{layer}.attention.self.{part}", HIDDEN, HIDDEN)
    return shapes


def _write(folder: Path, shapes: Shapes, **members: Any) -> Path:
    folder.mkdir()
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS,
        "num_attention_heads": 1,
        "num_hidden_layers": 1,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": len(VOCABULARY),
    }
    _json(folder / "config.json", config | members)
    _json(folder / "sentence_bert_config.json", {"max_seq_length": POSITIONS, "do_lower_case": False})
    _json(folder / "tokenizer.json", tokenizer())
    # A function of the name, so that a failure repeats.
    generator = random.Random(folder.name)
    header: dict[str, Any] = {}
    values: list[float] = []
    for name, shape in shapes.items():
        start = 4 * len(values)
        centre = 1.0 if name.endswith("LayerNorm.weight") else 0.0
        values += [centre + generator.uniform(-0.5, 0.5) for _ in range(math.prod(shape))]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, 4 * len(values)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    weights = struct.pack(f"<{len(values)}f", *values)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + weights)
    return folder


def tokenizer() -> dict[str, Any]:
    def special(token: str, kind: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": kind}}

    def sequence(name: str, kind: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": kind}}

    plain = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    single = [special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0)]
    known = {token: {"id": token, "ids": [SPECIAL.index(token)], "tokens": [token]} for token in ("[CLS]", "[SEP]")}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": at, "content": token, **plain} for at, token in enumerate(SPECIAL)],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, sequence("B", 1), special("[SEP]", 1)],
            "special_tokens": known,
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {token: at for at, token in enumerate(VOCABULARY)},
        },
    }


def _lock(folder: Path, name: str, clearseal: Path) -> list[str]:
    lock = folder.with_suffix(".lock.json")
    written = subprocess.run([clearseal, "model", "lock", folder, "--name", name], stdout=subprocess.PIPE, check=True)
    lock.write_bytes(written.stdout)
    return ["--model", os.fspath(folder), "--model-lock", os.fspath(lock)]


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
