"""Writes model folders with random weights, and sentence-transformers' own embeddings next to them.

    python folders.py OUT [--only GLOB] [--list] [--read-again]

Each folder `OUT/NAME/` is saved by the sentence-transformers that runs this program, loaded again,
and run in float32, one text at a time. `OUT/NAME.expected.json` holds the answers. The recipes are
in `recipes.py`. `--read-again` adds the answers of this sentence-transformers to folders that
another one wrote, where they differ.
"""

# Libraries read the environment while they are imported.
# ruff: noqa: E402

from __future__ import annotations

import argparse
import fnmatch
import json
import logging
import os
import shutil
import sys
import tempfile
import warnings
import zlib
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.filterwarnings("ignore")

import numpy as np
import sentence_transformers
import tokenizers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from transformers import AutoConfig, AutoModel

from recipes import MAJOR, RECIPES, TEXTS, Recipe, modules

# Random weights must separate texts, or a wrong engine would pass.
LEAST_SPREAD = 1e-3
# Padding must not change a row.
LEAST_BATCH_COSINE = 0.9999


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="folder for the model folders")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of recipes")
    parser.add_argument("--list", action="store_true", help="print the names and write nothing")
    parser.add_argument(
        "--read-again",
        action="store_true",
        help="add this version's answers to the folders of another version",
    )
    arguments = parser.parse_args()

    chosen = [
        recipe
        for recipe in RECIPES
        if MAJOR in recipe.majors and fnmatch.fnmatch(recipe.name, arguments.only)
    ]
    if arguments.list or arguments.out is None:
        print("\n".join(recipe.name for recipe in chosen))
        return 0

    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    if arguments.read_again:
        return read_again(arguments.out, arguments.only)
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for recipe in chosen:
        try:
            note = write_case(recipe, arguments.out)
        except Exception as error:
            failed += 1
            note = f"FAILED {type(error).__name__}: {error}"
            if arguments.only != "*":
                raise
        print(f"{recipe.name:44} {recipe.expect:7} {note}", flush=True)
    print(f"{len(chosen) - failed} folders written to {arguments.out}, {failed} failed")
    return 1 if failed else 0


def write_case(recipe: Recipe, out: Path) -> str:
    """Writes one folder and its expected answers; returns a note for the terminal."""
    folder = out / recipe.name
    shutil.rmtree(folder, ignore_errors=True)
    build_model(recipe, folder)
    if recipe.edit is not None:
        recipe.edit(folder)
    expected = compute_answers(recipe, folder)
    text = json.dumps(expected, ensure_ascii=False, indent=None)
    (out / f"{recipe.name}.expected.json").write_text(text)
    if "error" in expected:
        return f"sentence-transformers: {expected['error'][:90]}"
    return f"{expected['dimension']} dimensions, batch {expected['batch_cosine']:.6f}"


def build_model(recipe: Recipe, folder: Path) -> None:
    """Builds the modules with random weights and saves them with sentence-transformers."""
    vocabulary = recipe.vocabulary()
    parts: list[Any] = []
    with tempfile.TemporaryDirectory() as scratch:
        if recipe.architecture == "static":
            first = modules.StaticEmbedding(vocabulary.tokenizer, embedding_dim=64)
            randomise(first, recipe.architecture)
            parts.append(first)
            dimension = 64
        else:
            write_checkpoint(recipe, Path(scratch))
            first = modules.Transformer(
                scratch,
                max_seq_length=recipe.max_seq_length,
                do_lower_case=recipe.do_lower_case,
                **recipe.transformer,
            )
            parts.append(first)
            dimension = first.auto_model.config.hidden_size
            for make in recipe.before_pooling:
                module = make(dimension, vocabulary)
                randomise(module, type(module).__name__)
                dimension = getattr(module, "embeddings_dimension", dimension)
                parts.append(module)
            if recipe.pooling:
                parts.append(recipe.make_pooling(dimension))
                dimension *= len(recipe.pooling)
        for make in recipe.after_pooling:
            module = make(dimension, vocabulary)
            randomise(module, type(module).__name__)
            dimension = getattr(module, "out_features", dimension)
            parts.append(module)
        if recipe.arrange is not None:
            parts = recipe.arrange(parts)
        model = SentenceTransformer(modules=parts, device="cpu", **recipe.settings)
        if recipe.dtype is not None:
            model = model.to(recipe.dtype)
            for part in parts:
                if hasattr(part, "auto_model"):
                    part.auto_model.config.torch_dtype = recipe.dtype
        model.save(str(folder), create_model_card=False, safe_serialization=recipe.safetensors)


def write_checkpoint(recipe: Recipe, folder: Path) -> None:
    """Writes an encoder with random weights, and its tokenizer, in the form of transformers."""
    vocabulary = recipe.vocabulary()
    config = AutoConfig.for_model(
        recipe.architecture, **{"vocab_size": vocabulary.size, **vocabulary.ids, **recipe.config}
    )
    model = AutoModel.from_config(config)
    randomise(model, recipe.architecture)
    model.save_pretrained(folder)
    vocabulary.write(folder)


def randomise(module: torch.nn.Module, seed: str) -> None:
    """Draws every parameter, normalisations and biases included.

    The seed depends on the kind of module alone: variants of one architecture share weights, and
    their embeddings differ by the setting only.
    """
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    gemma = "gemma" in seed
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.is_meta or not parameter.is_floating_point():
                continue
            # Word weights are read from the recipe.
            if name == "emb_layer.weight":
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if "embed" in name and parameter.dim() >= 2:
                # Words outweigh positions and types, so that texts differ.
                rare = "position" in name or "type" in name
                parameter.copy_((0.1 if rare else 0.6) * noise)
            elif parameter.dim() >= 2:
                parameter.copy_(0.2 * noise)
            elif name.endswith("weight") or name.endswith("scale"):
                # Gemma adds one to the weight of a normalisation.
                parameter.copy_(0.3 * noise + (0.0 if gemma else 1.0))
            else:
                parameter.copy_(0.2 * noise)


def compute_answers(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Loads the folder and encodes the texts."""
    expected: dict[str, Any] = {
        "folder": recipe.name,
        "expect": recipe.expect,
        "names": list(recipe.names),
        "note": recipe.note,
        "versions": list_versions(),
    }
    texts = [
        text
        for text in TEXTS
        if (text or recipe.empty_text)
        and (recipe.longest_text is None or len(text) <= recipe.longest_text)
    ]
    try:
        model = load_model(folder)
        prompts = [None, *recipe.settings.get("prompts", {})]
        answers = [encode_texts(model, texts, prompt) for prompt in prompts]
        again = encode_texts(load_model(folder), texts[:2], None)
    except Exception as error:
        if recipe.expect == "match":
            raise
        return {**expected, "error": f"{type(error).__name__}: {error}"}
    rows = np.array(answers[0]["rows"])
    if not np.array_equal(np.array(again["rows"]), rows[:2], equal_nan=True):
        if recipe.expect == "match":
            raise ValueError("two loads differ: a tensor of the model is missing from the folder")
        return {**expected, "error": "two loads differ: sentence-transformers draws a tensor"}
    batch = measure_batch(model, texts, rows)
    if recipe.expect == "match":
        check_spread(answers[0])
    lengths = np.linalg.norm(rows, axis=1)
    expected |= {
        "dimension": rows.shape[1],
        "unit_length": bool(np.all(np.abs(lengths - 1) < 1e-4)),
        "batch_cosine": batch,
        "texts": texts,
        "answers": answers,
    }
    # A row that depends on its batch has no single answer, unless texts are run alone.
    if batch < LEAST_BATCH_COSINE and not recipe.batch_differs:
        raise ValueError(f"one text at a time and a batch differ: cosine {batch}")
    return expected


def list_versions() -> dict[str, str]:
    return {
        package.__name__: package.__version__
        for package in (sentence_transformers, transformers, tokenizers, torch)
    }


def read_again(out: Path, only: str) -> int:
    """Adds the member `later` to the expected answers that this version computes otherwise."""
    differing = []
    for path in sorted(out.glob(f"{only}.expected.json")):
        expected = json.loads(path.read_text())
        # A folder that has to be refused needs no second answer.
        if expected["versions"] == list_versions() or expected["expect"] == "refuse":
            continue
        expected.pop("later", None)
        try:
            model = load_model(out / expected["folder"])
            answers = [
                encode_texts(model, expected["texts"], answer["prompt_name"])
                for answer in expected["answers"]
            ]
        except Exception as error:
            print(f"{expected['folder']:44} fails: {type(error).__name__}: {error}")
            continue
        texts = list_differences(expected["answers"], answers)
        if texts:
            differing.append(expected["folder"])
            print(f"{expected['folder']:44} differs for texts {texts}")
            expected["later"] = {"versions": list_versions(), "answers": answers}
        path.write_text(json.dumps(expected, ensure_ascii=False))
    print(f"{len(differing)} folders differ")
    return 0


def list_differences(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[int]:
    """Indices of the texts whose tokens or rows differ with any prompt."""
    differing = set()
    for left, right in zip(before, after):
        for index, (row, other) in enumerate(zip(left["rows"], right["rows"])):
            if len(row) != len(other) or not np.allclose(row, other, rtol=1e-3, atol=1e-4):
                differing.add(index)
        for index, (ids, other) in enumerate(zip(left["tokens"], right["tokens"])):
            if ids != other:
                differing.add(index)
    return sorted(differing)


def load_model(folder: Path) -> SentenceTransformer:
    dtype = {"torch_dtype" if MAJOR == "old" else "dtype": torch.float32}
    return SentenceTransformer(str(folder), device="cpu", model_kwargs=dtype).float().eval()


def encode_texts(
    model: SentenceTransformer, texts: list[str], prompt_name: str | None
) -> dict[str, Any]:
    """Embeds each text alone; the ids are those of the truncated text."""
    name = prompt_name if prompt_name is not None else model.default_prompt_name
    prompt = (model.prompts.get(name) if name is not None else None) or ""
    tokens, rows = [], []
    for text in texts:
        if MAJOR == "old":
            features = model.tokenize([prompt + text])
        else:
            features = model.preprocess([text], prompt=prompt or None)
        if "input_ids" in features:
            tokens.append(features["input_ids"].reshape(-1).tolist())
        row = model.encode(text, prompt_name=prompt_name, batch_size=1, show_progress_bar=False)
        rows.append([float(f"{value:.9g}") for value in row.astype(np.float32)])
    return {"prompt_name": prompt_name, "tokens": tokens, "rows": rows}


def measure_batch(model: SentenceTransformer, texts: list[str], alone: np.ndarray) -> float:
    """The smallest cosine between a text encoded alone and the same text in one batch of all."""
    batch = model.encode(texts, batch_size=len(texts), show_progress_bar=False)
    worst = 1.0
    for left, right in zip(alone, batch):
        product = float(np.linalg.norm(left) * np.linalg.norm(right))
        if np.isfinite(product) and product > 0:
            worst = min(worst, float(left @ right) / product)
    return worst


def check_spread(answer: dict[str, Any]) -> None:
    """Refuses weights whose embeddings of different token sequences coincide."""
    rows = np.array(answer["rows"])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.all(np.isfinite(rows)):
        raise ValueError("a row is not finite")
    unit = rows / np.maximum(lengths, 1e-30)
    for i in range(len(rows)):
        for j in range(i):
            if answer["tokens"] and answer["tokens"][i] == answer["tokens"][j]:
                continue
            if unit[i] @ unit[j] > 1 - LEAST_SPREAD:
                raise ValueError(f"texts {j} and {i} have cosine {unit[i] @ unit[j]:.6f}")


if __name__ == "__main__":
    sys.exit(main())
