"""Writes folders of cross-encoders with random weights, and the scores of sentence-transformers.

    python cross_encoders.py OUT [--only GLOB]

Each folder is saved by `CrossEncoder`, loaded again, and run in float32, one pair at a time. The
answers have the form of `folders.py`: `texts` holds pairs, and each row is one score.
"""

# Libraries read the environment while they are imported.
# ruff: noqa: E402

from __future__ import annotations

import argparse
import fnmatch
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from folders import list_versions, randomise

import torch
import transformers
import vocabularies
from sentence_transformers import CrossEncoder
from transformers import AutoConfig, AutoModelForSequenceClassification

# Scores are numbers near one another: a cosine would show nothing.
MOST_DIFFERENCE = 1e-5
# Scores of random weights must differ, or a wrong engine would pass.
LEAST_SPREAD = 1e-2

MODEL = "config_sentence_transformers.json"
TRANSFORMER = "sentence_bert_config.json"
TOKENIZER = "tokenizer_config.json"
XLM_R = "xlm-roberta"

LONG = "The quick brown fox jumps over the lazy dog, and rests. " * 6
PAIRS = [
    ("How do I seal a request?", "A client seals it to the key of an attested enclave."),
    ("How do I seal a request?", "The lazy dog sleeps."),
    ("short", LONG),
    (LONG, "short"),
    (LONG, "Why " + LONG),
    ("Grüße, 世界", "naïve café — 12,345.67"),
    ("a", "a"),
    ("", "an empty query"),
]

SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 130,
    "num_labels": 1,
}
DISTIL = {
    "dim": 64,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 128,
    "max_position_embeddings": 130,
    "num_labels": 1,
}


@dataclass
class Recipe:
    """A folder, and whether the engine has to score it."""

    name: str
    architecture: str = "bert"
    vocabulary: str = "bert"
    config: dict[str, Any] = field(default_factory=lambda: SMALL)
    settings: dict[str, Any] = field(default_factory=dict)
    edit: Callable[[Path], None] | None = None
    expect: str = "match"
    names: tuple[str, ...] = ()


def change(file: str, **members: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / file
        content = json.loads(path.read_text())
        for name, value in members.items():
            if value is None:
                content.pop(name, None)
            else:
                content[name] = value
        path.write_text(json.dumps(content, indent=2))

    return edit


def age(**members: Any) -> Callable[[Path], None]:
    """The files that sentence-transformers 2 to 5 wrote: those of transformers alone."""

    def edit(folder: Path) -> None:
        for name in ["modules.json", MODEL, TRANSFORMER]:
            (folder / name).unlink()
        change("config.json", **members)(folder)

    return edit


def refused(name: str, edit: Callable[[Path], None], *names: str) -> Recipe:
    return Recipe(name, edit=edit, expect="refuse", names=names)


IDENTITY = "torch.nn.modules.linear.Identity"
ONE_TYPE = {**SMALL, "type_vocab_size": 1}
RECIPES = [
    Recipe("cross-bert"),
    Recipe("cross-bert-short", settings={"max_length": 24}),
    Recipe(
        "cross-bert-left",
        settings={"max_length": 24},
        edit=change(TOKENIZER, truncation_side="left"),
    ),
    Recipe("cross-bert-identity", settings={"activation_fn": torch.nn.Identity()}),
    Recipe("cross-bert-tanh", settings={"activation_fn": torch.nn.Tanh()}),
    Recipe(
        "cross-bert-one-type",
        edit=change(TOKENIZER, model_input_names=["input_ids", "attention_mask"]),
    ),
    Recipe("cross-bert-old", edit=age()),
    Recipe("cross-bert-old-identity", edit=age(sbert_ce_default_activation_function=IDENTITY)),
    Recipe(
        "cross-bert-v4-identity",
        edit=age(sentence_transformers={"activation_fn": IDENTITY, "version": "4.0.1"}),
    ),
    Recipe("cross-bert-cased", vocabulary="bert-cased"),
    Recipe("cross-roberta", "roberta", "roberta", ONE_TYPE, settings={"max_length": 96}),
    Recipe("cross-xlm-roberta", XLM_R, XLM_R, ONE_TYPE, settings={"max_length": 96}),
    Recipe("cross-xlm-roberta-short", XLM_R, XLM_R, ONE_TYPE, settings={"max_length": 20}),
    Recipe("cross-distilbert", "distilbert", "distilbert", DISTIL),
    Recipe("cross-mpnet", "mpnet", "mpnet", settings={"max_length": 96}),
    Recipe("cross-modernbert", "modernbert", "modernbert"),
    Recipe(
        "cross-modernbert-mean",
        "modernbert",
        "modernbert",
        {**SMALL, "classifier_pooling": "mean"},
    ),
    Recipe(
        "cross-modernbert-biases",
        "modernbert",
        "modernbert",
        {**SMALL, "classifier_bias": True, "norm_bias": True, "classifier_activation": "silu"},
    ),
    refused("cross-two-labels", age(id2label={"0": "no", "1": "yes"}), "id2label"),
    refused("cross-no-labels", age(id2label=None, label2id=None), "id2label"),
    refused(
        "cross-activation",
        change(MODEL, activation_fn="torch.nn.modules.activation.ReLU"),
        "activation_fn",
    ),
    refused(
        "cross-prompt",
        change(MODEL, prompts={"query": "q: "}, default_prompt_name="query"),
        "prompts",
    ),
    refused(
        "cross-task",
        change(TRANSFORMER, transformer_task="text-generation"),
        "transformer_task",
    ),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the model folders")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of recipes")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for recipe in RECIPES:
        if fnmatch.fnmatch(recipe.name, arguments.only):
            note = write_case(recipe, arguments.out)
            print(f"{recipe.name:32} {recipe.expect:7} {note}", flush=True)
    return 0


def write_case(recipe: Recipe, out: Path) -> str:
    folder = out / recipe.name
    shutil.rmtree(folder, ignore_errors=True)
    vocabulary = vocabularies.train(recipe.vocabulary)
    with tempfile.TemporaryDirectory() as scratch:
        config = {"vocab_size": vocabulary.size, **vocabulary.ids, **recipe.config}
        model = AutoModelForSequenceClassification.from_config(
            AutoConfig.for_model(recipe.architecture, **config)
        )
        randomise(model, recipe.architecture)
        model.save_pretrained(scratch)
        vocabulary.write(Path(scratch))
        model = CrossEncoder(scratch, device="cpu", **recipe.settings)
        model.save(str(folder), create_model_card=False)
    if recipe.edit is not None:
        recipe.edit(folder)
    expected: dict[str, Any] = {
        "folder": recipe.name,
        "expect": recipe.expect,
        "names": list(recipe.names),
        "versions": list_versions(),
        "most_difference": MOST_DIFFERENCE,
        "texts": PAIRS,
    }
    note = "written"
    if recipe.expect == "match":
        model = CrossEncoder(str(folder), device="cpu")
        scores = [float(model.predict([pair])[0]) for pair in PAIRS]
        tokens = [model.preprocess([pair])["input_ids"][0].tolist() for pair in PAIRS]
        expected["answers"] = [
            {"prompt_name": None, "tokens": tokens, "rows": [[score] for score in scores]}
        ]
        spread = max(scores) - min(scores)
        if spread < LEAST_SPREAD:
            raise ValueError(f"the scores differ by {spread}")
        note = f"scores from {min(scores):.4f} to {max(scores):.4f}"
    (out / f"{recipe.name}.expected.json").write_text(json.dumps(expected, ensure_ascii=False))
    return note


if __name__ == "__main__":
    sys.exit(main())
