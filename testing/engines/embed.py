"""Embeds texts with one engine: `python embed.py ENGINE FOLDER TEXTS.json OUT`.

FOLDER is the model of `export.py`. Writes OUT.npz with the rows of `hard`, `queries` and `rows`, and OUT.json with versions and the
tokens of `hard` where the engine shows them.
"""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import sys
import time
from collections.abc import Callable

import numpy

Engine = tuple[Callable[[list[str]], numpy.ndarray], Callable[[str], list[int]] | None, tuple[str, ...]]


def sentence_transformers(folder: str, backend: str, **options: str) -> Engine:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, backend=backend, device="cpu", model_kwargs=options or None)

    def tokens(text: str) -> list[int]:
        return model.tokenizer(text, truncation=True, max_length=256)["input_ids"]

    packages = {"torch": ("torch",), "onnx": ("onnxruntime", "optimum-onnx"), "openvino": ("openvino", "optimum-intel")}
    return (
        lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False),
        tokens,
        ("sentence-transformers", "transformers", *packages[backend]),
    )


def fastembed(folder: str) -> Engine:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    name = "local/all-MiniLM-L6-v2"
    TextEmbedding.add_custom_model(
        model=name,
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf=name),
        dim=384,
        model_file="onnx/model.onnx",
    )
    model = TextEmbedding(name, specific_model_path=folder)
    inner = model.model.tokenizer
    return (
        lambda texts: numpy.array(list(model.embed(texts, batch_size=32))),
        lambda text: [id for id, mask in zip(inner.encode(text).ids, inner.encode(text).attention_mask, strict=True) if mask],
        ("fastembed", "onnxruntime"),
    )


ENGINES: dict[str, Callable[[str], Engine]] = {
    "st-torch": lambda folder: sentence_transformers(folder, "torch"),
    "st-bf16": lambda folder: sentence_transformers(folder, "torch", torch_dtype="bfloat16"),
    "st-onnx": lambda folder: sentence_transformers(folder, "onnx", file_name="onnx/model.onnx"),
    "st-onnx-q8": lambda folder: sentence_transformers(folder, "onnx", file_name="onnx/model_quantized.onnx"),
    "st-openvino": lambda folder: sentence_transformers(folder, "openvino"),
    "fastembed": fastembed,
}


def main() -> None:
    engine, folder, texts, out = sys.argv[1:]
    embed, tokens, packages = ENGINES[engine](folder)
    sets = json.loads(pathlib.Path(texts).read_text(encoding="utf-8"))
    begun = time.monotonic()
    rows = {name: numpy.asarray(embed(part), dtype=numpy.float32) for name, part in sets.items()}
    numpy.savez(f"{out}.npz", **rows)
    facts = {
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "tokens": [tokens(text) for text in sets["hard"]] if tokens else None,
        "seconds": round(time.monotonic() - begun),
    }
    pathlib.Path(f"{out}.json").write_text(json.dumps(facts))
    print(engine, facts["versions"], facts["seconds"], "s")


main()
