"""The folders: architectures and settings, each a `Recipe`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sentence_transformers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers, processors
from torch import nn

import vocabularies
from vocabularies import Vocabulary

MAJOR = "old" if int(sentence_transformers.__version__.split(".")[0]) < 5 else "new"

if MAJOR == "old":
    from sentence_transformers import models as modules
else:
    from sentence_transformers.sentence_transformer import modules

TEXTS = [
    "Hello world",
    "",
    "a",
    "The quick brown fox jumps over the lazy dog.",
    "An enclave proves which code will read a text before the text is sent, and a client that "
    "appraises the evidence encrypts its request to a key that only this code holds.",
    "The statement executes the suite until an exception is raised, and a handler is looked up. "
    * 6
    + "The last words are truncated.",
    "Größere Übungen heißen im Süden „Überprüfungen“; die Straße führt über Köln nach Würzburg.",
    "THE ENCLAVE PROVES ITS CODE BEFORE ANY Text Is Sent",
    "人工智能正在改变世界。请在发送文本之前验证代码。",
    "On 2026-11-28 it cost $1,024.50 (3.14159%); see §7, #42 and https://example.org/a?b=c&d=e!",
    "several   spaces  and\ttabs\n\nand lines",
    "  leading and trailing  ",
    "Cafe\u0301 de\u0301ja\u0300 vu, na\u00efve \ufb01ne \uff21\uff22\uff23 \u00bd \U0001f600",
    "[CLS] literal [SEP] <s> special </s> <mask> [MASK] <pad> tokens",
]

Maker = Callable[[int, Vocabulary], nn.Module]


@dataclass(frozen=True)
class Recipe:
    """One folder."""

    name: str
    architecture: str = "bert"
    config: dict[str, Any] = field(default_factory=dict)
    # A key of `vocabularies.train`, or a function.
    tokens: str | Callable[[], Vocabulary] = "bert"
    pooling: tuple[str, ...] = ("mean",)
    include_prompt: bool = True
    before_pooling: tuple[Maker, ...] = ()
    after_pooling: tuple[Maker, ...] = ()
    # Rearranges the list of modules.
    arrange: Callable[[list[Any]], list[Any]] | None = None
    max_seq_length: int | None = 48
    do_lower_case: bool = False
    # Further arguments of the Transformer module.
    transformer: dict[str, Any] = field(default_factory=dict)
    # Arguments of SentenceTransformer: prompts and the like.
    settings: dict[str, Any] = field(default_factory=dict)
    dtype: torch.dtype | None = None
    safetensors: bool = True
    # Changes the saved folder.
    edit: Callable[[Path], None] | None = None
    expect: str = "match"
    # A refusal has to contain one of these.
    names: tuple[str, ...] = ()
    note: str = ""
    majors: tuple[str, ...] = ("old", "new")
    # Texts above this many characters are left out: sentence-transformers fails on them.
    longest_text: int | None = None
    # Whether the model has an answer for an empty text.
    empty_text: bool = True
    # Whether padding changes rows.
    batch_differs: bool = False

    def vocabulary(self) -> Vocabulary:
        return vocabularies.train(self.tokens) if isinstance(self.tokens, str) else self.tokens()

    def make_pooling(self, dimension: int) -> nn.Module:
        settings: dict[str, Any] = {} if self.include_prompt else {"include_prompt": False}
        if MAJOR == "new":
            modes = self.pooling[0] if len(self.pooling) == 1 else self.pooling
            return modules.Pooling(dimension, pooling_mode=modes, **settings)
        names = {
            "cls": "pooling_mode_cls_token",
            "mean": "pooling_mode_mean_tokens",
            "max": "pooling_mode_max_tokens",
            "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
            "weightedmean": "pooling_mode_weightedmean_tokens",
            "lasttoken": "pooling_mode_lasttoken",
        }
        chosen = {names[mode]: mode in self.pooling for mode in names}
        return modules.Pooling(dimension, **chosen, **settings)


def normalize(_dimension: int, _vocabulary: Vocabulary) -> nn.Module:
    return modules.Normalize()


def dense(out: int, activation: nn.Module, bias: bool = True, **settings: Any) -> Maker:
    return lambda dimension, _vocabulary: modules.Dense(
        dimension, out, bias=bias, activation_function=activation, **settings
    )


def layer_norm(dimension: int, _vocabulary: Vocabulary) -> nn.Module:
    return modules.LayerNorm(dimension)


def dropout(_dimension: int, _vocabulary: Vocabulary) -> nn.Module:
    return modules.Dropout(0.3)


BERT = Recipe(
    "bert",
    config={
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "max_position_embeddings": 64,
    },
    after_pooling=(normalize,),
)
ROBERTA = replace(
    BERT,
    name="roberta",
    architecture="roberta",
    tokens="roberta",
    config={
        **BERT.config,
        "max_position_embeddings": 66,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
    },
)
XLM_ROBERTA = replace(ROBERTA, name="xlm-roberta", architecture="xlm-roberta", tokens="xlm-roberta")
DISTILBERT = replace(
    BERT,
    name="distilbert",
    architecture="distilbert",
    tokens="distilbert",
    config={
        "dim": 64,
        "n_heads": 2,
        "n_layers": 2,
        "hidden_dim": 128,
        "max_position_embeddings": 64,
    },
)
MPNET = replace(
    BERT,
    name="mpnet",
    architecture="mpnet",
    tokens="mpnet",
    config={**BERT.config, "max_position_embeddings": 66, "layer_norm_eps": 1e-5},
)
NOMIC = replace(
    BERT,
    name="nomic",
    architecture="nomic_bert",
    config={**BERT.config, "max_position_embeddings": 256},
    majors=("new",),
)
MODERNBERT = replace(
    BERT,
    name="modernbert",
    architecture="modernbert",
    tokens="modernbert",
    config={
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 3,
        "intermediate_size": 96,
        "max_position_embeddings": 256,
        "global_attn_every_n_layers": 2,
        "local_attention": 8,
        "bos_token_id": 2,
        "eos_token_id": 3,
    },
    majors=("new",),
)
QWEN = replace(
    BERT,
    name="qwen3",
    architecture="qwen3",
    tokens="qwen",
    config={
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    },
    pooling=("lasttoken",),
    settings={
        "prompts": {
            "query": "Instruct: Given a web search query, retrieve passages\nQuery:",
            "document": "",
        }
    },
    majors=("new",),
)
GEMMA = replace(
    BERT,
    name="gemma",
    architecture="gemma3_text",
    tokens="gemma",
    config={
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "query_pre_attn_scalar": 32,
        "num_hidden_layers": 3,
        "intermediate_size": 96,
        "max_position_embeddings": 512,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "use_bidirectional_attention": True,
    },
    after_pooling=(
        dense(128, nn.Identity(), bias=False),
        dense(64, nn.Identity(), bias=False),
        normalize,
    ),
    settings={
        "prompts": {"query": "task: search result | query: ", "document": "title: none | text: "}
    },
    majors=("new",),
)
STATIC = replace(
    BERT,
    name="static",
    architecture="static",
    pooling=(),
    after_pooling=(),
    config={},
    majors=("new",),
)
BASES = (BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, MPNET, NOMIC, MODERNBERT, QWEN, GEMMA)

RECIPES: list[Recipe] = []


def add(base: Recipe, suffix: str = "", **changes: Any) -> None:
    """Appends a variant of `base`; `config` is merged."""
    name = f"{base.name}-{suffix}" if suffix else base.name
    if "config" in changes:
        changes["config"] = {**base.config, **changes["config"]}
    RECIPES.append(replace(base, name=name, **changes))


NEW = ("new",)
OLD = ("old",)


def edit_json(file: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """A change of one JSON file; `change` edits the value in place, or returns another."""

    def edit(folder: Path) -> None:
        value = json.loads((folder / file).read_text())
        changed = change(value)
        text = json.dumps(value if changed is None else changed, indent=2, ensure_ascii=False)
        (folder / file).write_text(text)

    return edit


# The base of every architecture.
for base in BASES:
    add(base)
add(STATIC)


# Pooling. Without Normalize, so that lengths are compared too.
for mode in ("cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"):
    name = mode.replace("_len_tokens", "").replace("_", "-")
    add(BERT, f"pooling-{name}", pooling=(mode,), after_pooling=())
add(BERT, "pooling-cls-mean", pooling=("cls", "mean"), after_pooling=())
add(BERT, "pooling-mean-cls", pooling=("mean", "cls"), majors=NEW, note="not the legacy order")
add(
    BERT,
    "pooling-all",
    pooling=("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"),
    after_pooling=(),
)
add(
    BERT,
    "pooling-early-config",
    majors=OLD,
    pooling=("cls",),
    edit=edit_json(
        "1_Pooling/config.json",
        lambda value: {
            key: value[key]
            for key in (
                "word_embedding_dimension",
                "pooling_mode_cls_token",
                "pooling_mode_mean_tokens",
                "pooling_mode_max_tokens",
                "pooling_mode_mean_sqrt_len_tokens",
            )
        },
    ),
    note="the members that version 0.3 wrote",
)
add(
    BERT,
    "pooling-missing",
    pooling=(),
    after_pooling=(),
    expect="refuse",
    names=("Pooling", "modules.json"),
)

# Modules after Pooling.
add(BERT, "no-normalize", after_pooling=())
add(BERT, "normalize-twice", after_pooling=(normalize, normalize))
add(BERT, "normalize-then-dense", after_pooling=(normalize, dense(96, nn.Tanh())))
for name, activation in (
    ("tanh", nn.Tanh()),
    ("identity", nn.Identity()),
    ("gelu", nn.GELU()),
    ("relu", nn.ReLU()),
    ("silu", nn.SiLU()),
    ("sigmoid", nn.Sigmoid()),
):
    add(BERT, f"dense-{name}", after_pooling=(dense(96, activation),))
add(BERT, "dense-no-bias", after_pooling=(dense(32, nn.Tanh(), bias=False), normalize))
add(
    BERT,
    "dense-mish",
    after_pooling=(dense(32, nn.Mish()),),
    expect="refuse",
    names=("activation_function", "Mish"),
)
add(
    BERT,
    "dense-tanh-gelu",
    after_pooling=(dense(32, nn.GELU(approximate="tanh")),),
    note="the file names the class only, so the folder loads as exact GELU",
)
add(BERT, "dense-residual", after_pooling=(dense(64, nn.Tanh(), use_residual=True),), majors=NEW)
add(
    BERT,
    "dense-residual-projected",
    after_pooling=(dense(96, nn.Tanh(), use_residual=True),),
    majors=NEW,
)
add(
    BERT,
    "dense-on-tokens",
    before_pooling=(dense(64, nn.Tanh(), module_input_name="token_embeddings"),),
    majors=NEW,
    expect="refuse",
    names=("module_input_name", "token_embeddings"),
)
add(BERT, "layer-norm", after_pooling=(layer_norm,))
add(BERT, "layer-norm-dense", after_pooling=(layer_norm, dense(32, nn.Identity()), normalize))
add(BERT, "dropout", after_pooling=(dropout, normalize), note="inactive at inference")
add(BERT, "truncate-dim", settings={"truncate_dim": 32}, majors=NEW)
add(BERT, "similarity-dot", settings={"similarity_fn_name": "dot"})

# Prompts.
PROMPTS = {"query": "query: ", "passage": "Represent this Passage for retrieval: "}
add(BERT, "prompts", settings={"prompts": PROMPTS})
add(BERT, "prompt-default", settings={"prompts": PROMPTS, "default_prompt_name": "passage"})
for mode in ("mean", "cls", "max", "weightedmean", "lasttoken"):
    add(
        BERT,
        f"prompt-excluded-{mode}",
        settings={"prompts": PROMPTS, "default_prompt_name": "query"},
        pooling=(mode,),
        include_prompt=False,
        after_pooling=(),
        expect="refuse",
        names=("include_prompt",),
        note="3.0.1 takes the first token with pooling `cls`, 6.2 the first after the prompt",
    )

# Lengths.
add(BERT, "max-absent", max_seq_length=None)
add(BERT, "max-short", max_seq_length=16)
add(BERT, "max-equal", max_seq_length=64)
add(BERT, "max-above", max_seq_length=200, majors=NEW, note="6.2 caps it by the positions")
add(
    BERT,
    "max-above",
    max_seq_length=200,
    majors=OLD,
    expect="refuse",
    names=("max_seq_length", "max_position_embeddings"),
    longest_text=30,
    note="3.0.1 fails on texts above the positions",
)
add(
    ROBERTA,
    "max-absent",
    max_seq_length=None,
    expect="refuse",
    names=("max_seq_length", "model_max_length", "max_position_embeddings"),
    longest_text=30,
    note="sentence-transformers takes 66 of 66 positions, and RoBERTa's begin at 2",
)
add(ROBERTA, "max-equal", max_seq_length=64)


def with_config(kind: str, **config: Any) -> Callable[[], Vocabulary]:
    """A shared vocabulary with further members in tokenizer_config.json."""

    def make() -> Vocabulary:
        base = vocabularies.train(kind)
        return replace(base, config={**base.config, **config})

    return make


add(BERT, "truncation-left", tokens=with_config("bert", truncation_side="left"))
add(
    BERT,
    "padding-left",
    tokens=with_config("bert", padding_side="left"),
    batch_differs=True,
    note="alone, a text has no padding",
)
add(ROBERTA, "truncation-left", tokens=with_config("roberta", truncation_side="left"))
add(ROBERTA, "padding-left", tokens=with_config("roberta", padding_side="left"))
add(XLM_ROBERTA, "truncation-left", tokens=with_config("xlm-roberta", truncation_side="left"))
add(
    BERT,
    "processing-kwargs",
    transformer={"processing_kwargs": {"text": {"max_length": 20}}},
    majors=NEW,
    expect="refuse",
    names=("processing_kwargs",),
)
add(
    BERT,
    "query-length",
    transformer={"query_length": 12, "document_length": 20},
    majors=NEW,
    expect="refuse",
    names=("query_length", "document_length"),
    note="`encode` without a task ignores both",
)

# BERT's configuration.
for activation in ("gelu_new", "gelu_pytorch_tanh", "relu", "silu"):
    add(BERT, f"act-{activation}", config={"hidden_act": activation})
add(
    BERT,
    "act-mish",
    config={"hidden_act": "mish"},
    expect="refuse",
    names=("hidden_act",),
)
for epsilon in (1e-5, 0.1):
    add(BERT, f"eps-{epsilon}", config={"layer_norm_eps": epsilon})
for kind in ("relative_key", "relative_key_query"):
    add(
        BERT,
        kind.replace("_", "-"),
        config={"position_embedding_type": kind},
        majors=OLD,
        expect="refuse",
        names=("position_embedding_type",),
    )
add(BERT, "one-type", config={"type_vocab_size": 1})
add(BERT, "decoder", config={"is_decoder": True}, expect="refuse", names=("is_decoder",))
add(BERT, "heads-of-12", config={"hidden_size": 48, "num_attention_heads": 4})
add(BERT, "heads-of-24", config={"hidden_size": 48, "num_attention_heads": 2})
add(BERT, "heads-of-64", config={"hidden_size": 128, "intermediate_size": 256})
add(BERT, "three-heads", config={"hidden_size": 96, "num_attention_heads": 3})
add(BERT, "three-layers", config={"num_hidden_layers": 3})
add(BERT, "odd-feed-forward", config={"intermediate_size": 101})
add(BERT, "vocabulary-larger", config={"vocab_size": 2048})
add(
    BERT,
    "vocabulary-smaller",
    config={"vocab_size": 1500},
    expect="refuse",
    names=("vocab_size", "tokenizer.json"),
)

# Weights.


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def rename_tensors(rename: Callable[[str], str]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        tensors = {rename(name): tensor for name, tensor in read_tensors(folder).items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return edit


def name_as_tensorflow(name: str) -> str:
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
        "LayerNorm.bias", "LayerNorm.beta"
    )


def save_with_head(head: str) -> Callable[[Path], None]:
    """Replaces the encoder by the checkpoint of a model with a head: tensors get a prefix."""

    def edit(folder: Path) -> None:
        config = transformers.AutoConfig.from_pretrained(folder)
        model = getattr(transformers, head)(config)
        encoder = transformers.AutoModel.from_pretrained(folder)
        model.base_model.load_state_dict(encoder.state_dict(), strict=False)
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder)

    return edit


def split_weights(folder: Path) -> None:
    """Saves the weights in several files with an index."""
    model = transformers.AutoModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="100KB")


def chain(*edits: Callable[[Path], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        for one in edits:
            one(folder)

    return edit


def remove(*files: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        for file in files:
            (folder / file).unlink()

    return edit


for base in (BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, MPNET, NOMIC, MODERNBERT, QWEN, GEMMA):
    add(base, "f16", dtype=torch.float16, note="the oracle computes in float32")
    add(base, "bf16", dtype=torch.bfloat16, note="the oracle computes in float32")
for base in (BERT, XLM_ROBERTA, QWEN):
    add(base, "sharded", edit=split_weights)
add(
    BERT,
    "pytorch-bin",
    safetensors=False,
    majors=OLD,
    expect="refuse",
    names=("safetensors", "pytorch_model.bin"),
)
add(BERT, "gamma-beta", edit=rename_tensors(name_as_tensorflow))
add(BERT, "tensors-prefixed", edit=rename_tensors(lambda name: f"bert.{name}"))
add(BERT, "masked-lm", edit=save_with_head("BertForMaskedLM"))
add(BERT, "classification", edit=save_with_head("BertForSequenceClassification"))
add(BERT, "pretraining", edit=save_with_head("BertForPreTraining"))
add(
    BERT,
    "masked-lm-gamma-beta",
    edit=chain(save_with_head("BertForMaskedLM"), rename_tensors(name_as_tensorflow)),
)
add(ROBERTA, "masked-lm", edit=save_with_head("RobertaForMaskedLM"))
add(XLM_ROBERTA, "masked-lm", edit=save_with_head("XLMRobertaForMaskedLM"))
add(DISTILBERT, "masked-lm", edit=save_with_head("DistilBertForMaskedLM"))
add(MPNET, "masked-lm", edit=save_with_head("MPNetForMaskedLM"))
add(MODERNBERT, "masked-lm", edit=save_with_head("ModernBertForMaskedLM"))
add(QWEN, "causal-lm", edit=save_with_head("Qwen3ForCausalLM"))
add(
    BERT,
    "no-modules-json",
    edit=remove("modules.json"),
    expect="refuse",
    names=("modules.json",),
    note="sentence-transformers takes the mean",
)
add(
    BERT,
    "tensor-missing",
    edit=lambda folder: save_file(
        {
            name: tensor
            for name, tensor in read_tensors(folder).items()
            if name != "encoder.layer.1.output.dense.weight"
        },
        folder / "model.safetensors",
        metadata={"format": "pt"},
    ),
    expect="refuse",
    names=("encoder.layer.1.output.dense.weight",),
    note="sentence-transformers draws the tensor at random",
)
add(
    BERT,
    "legacy-config-name",
    majors=OLD,
    max_seq_length=20,
    edit=lambda folder: (
        (folder / "sentence_bert_config.json")
        .rename(folder / "sentence_roberta_config.json")
        .touch()
    ),
    expect="refuse",
    names=("sentence_bert_config.json", "sentence_roberta_config.json"),
)


def change_tensors(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]],
) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        tensors = change(read_tensors(folder))
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return edit


add(
    BERT,
    "position-ids",
    edit=change_tensors(
        lambda tensors: {**tensors, "embeddings.position_ids": torch.arange(64).unsqueeze(0)}
    ),
    note="an integer buffer that files of transformers before 4.31 hold",
)
add(
    BERT,
    "mixed-types",
    edit=change_tensors(
        lambda tensors: {
            name: tensor if "LayerNorm" in name else tensor.to(torch.bfloat16)
            for name, tensor in tensors.items()
        }
    ),
)
add(
    BERT,
    "f64",
    edit=change_tensors(lambda tensors: {name: t.double() for name, t in tensors.items()}),
    expect="refuse",
    names=("F64",),
)
add(
    BERT,
    "shard-missing",
    edit=chain(split_weights, remove("model-00002-of-00005.safetensors")),
    expect="refuse",
    names=("model-00002-of-00005.safetensors",),
)


def move_transformer(folder: Path) -> None:
    """Moves the encoder to a subfolder, as sentence-transformers 1 saved it."""
    target = folder / "0_Transformer"
    target.mkdir()
    stays = ("modules.json", "config_sentence_transformers.json")
    for path in list(folder.iterdir()):
        if path.is_file() and path.name not in stays:
            path.rename(target / path.name)
    edit_json("modules.json", lambda value: value[0].update(path="0_Transformer"))(folder)


add(
    BERT,
    "subfolder",
    edit=move_transformer,
    expect="refuse",
    names=("0_Transformer", "modules.json"),
)
add(BERT, "no-prompt-file", edit=remove("config_sentence_transformers.json"))
add(
    BERT,
    "module-kwargs",
    edit=edit_json("modules.json", lambda value: value[0].update(kwargs=["task"])),
    majors=NEW,
)
add(BERT, "hidden-states", config={"output_hidden_states": True})
DEFAULTS = ("hidden_act", "layer_norm_eps", "type_vocab_size", "is_decoder")
add(
    BERT,
    "config-defaults",
    edit=edit_json(
        "config.json", lambda value: {k: v for k, v in value.items() if k not in DEFAULTS}
    ),
    expect="refuse",
    names=DEFAULTS,
    note="transformers takes gelu, 1e-12, 2 and false",
)
add(
    QWEN,
    "head-dim-absent",
    config={"head_dim": 128, "num_attention_heads": 2},
    edit=edit_json(
        "config.json", lambda value: {k: v for k, v in value.items() if k != "head_dim"}
    ),
    expect="refuse",
    names=("head_dim",),
    note="transformers takes 128, not hidden_size / num_attention_heads",
)

# Lengths in two files.
for name, length in (("shorter", 20), ("longer", 512)):
    add(
        BERT,
        f"max-tokenizer-{name}",
        edit=edit_json(
            "tokenizer_config.json",
            lambda value, length=length: value.update(model_max_length=length),
        ),
        majors=OLD,
        note="max_seq_length of sentence_bert_config.json counts",
    )
add(
    BERT,
    "max-both",
    edit=edit_json("sentence_bert_config.json", lambda value: value.update(max_seq_length=20)),
    majors=NEW,
    note="max_seq_length of sentence_bert_config.json counts",
)
add(
    BERT,
    "max-tokenizer-absent",
    edit=edit_json(
        "tokenizer_config.json",
        lambda value: {k: v for k, v in value.items() if k != "model_max_length"},
    ),
    majors=NEW,
    note="max_position_embeddings counts",
)
add(
    BERT,
    "max-null",
    edit=edit_json("sentence_bert_config.json", lambda value: value.update(max_seq_length=None)),
)

# Tokenizers.
add(BERT, "cased", tokens="bert-cased")
for base, kind in ((BERT, "bert-cased"), (ROBERTA, "roberta"), (XLM_ROBERTA, "xlm-roberta")):
    add(base, "lower-case-module", tokens=kind, do_lower_case=True, majors=OLD)
    add(
        base,
        "lower-case-module",
        tokens=kind,
        do_lower_case=True,
        majors=NEW,
        expect="refuse",
        names=("do_lower_case", "tokenizer_config.json", "tokenizer_class", "normalizer"),
        note="6.2 saves Lowercase in tokenizer.json; loaded again, transformers 5 drops it",
    )
add(MODERNBERT, "lower-case-module", do_lower_case=True)
add(
    BERT,
    "lower-case-generic",
    tokens=lambda: generic("bert-cased")(),
    do_lower_case=True,
)
add(
    BERT,
    "tokenizer-config-cased",
    edit=edit_json("tokenizer_config.json", lambda value: value.update(do_lower_case=False)),
    expect="refuse",
    names=("tokenizer_config.json", "do_lower_case", "tokenizer_class"),
    note="tokenizer.json lowers case: transformers follows tokenizer_config.json",
)
add(
    BERT,
    "tokenizer-config-lower",
    tokens="bert-cased",
    edit=edit_json("tokenizer_config.json", lambda value: value.update(do_lower_case=True)),
    expect="refuse",
    names=("tokenizer_config.json", "do_lower_case", "tokenizer_class"),
    note="tokenizer.json keeps case: transformers follows tokenizer_config.json",
)
add(
    BERT,
    "tokenizer-config-silent",
    tokens="bert-cased",
    edit=edit_json(
        "tokenizer_config.json",
        lambda value: {k: v for k, v in value.items() if k != "do_lower_case"},
    ),
    expect="refuse",
    names=("tokenizer_config.json", "do_lower_case", "tokenizer_class"),
    note="tokenizer.json keeps case and tokenizer_config.json has no do_lower_case",
)
add(
    BERT,
    "strip-accents",
    tokens=lambda: vocabularies.train_wordpiece(lowercase=False, strip_accents=True),
)
add(
    BERT,
    "keep-accents",
    tokens=lambda: vocabularies.train_wordpiece(lowercase=True, strip_accents=False),
)
add(
    BERT,
    "tokenizer-config-chinese",
    edit=edit_json(
        "tokenizer_config.json", lambda value: value.update(tokenize_chinese_chars=False)
    ),
    expect="refuse",
    names=("tokenizer_config.json", "tokenize_chinese_chars"),
)


def add_tokens(kind: str) -> Callable[[], Vocabulary]:
    """A vocabulary with added tokens of every sort."""

    def make() -> Vocabulary:
        base = vocabularies.train(kind)
        tokenizer = Tokenizer.from_str(base.tokenizer.to_str())
        tokenizer.add_tokens(
            [
                AddedToken("enclave", single_word=True),
                AddedToken("Straße", normalized=True),
                AddedToken("2026", lstrip=True, rstrip=True, normalized=False),
                AddedToken("ing", normalized=False),
            ]
        )
        tokenizer.add_special_tokens([AddedToken("§7", normalized=False)])
        return vocabularies.finish(tokenizer, base.config)

    return make


for base in (BERT, ROBERTA, XLM_ROBERTA, MODERNBERT, QWEN):
    kind = base.tokens if isinstance(base.tokens, str) else "bert"
    add(base, "added-tokens", tokens=add_tokens(kind))


def forget_token(folder: Path) -> None:
    """Leaves an added token in tokenizer_config.json only."""
    edit_json(
        "tokenizer_config.json",
        lambda value: value.setdefault("added_tokens_decoder", {}).update(
            {
                "2000": {
                    "content": "read a text",
                    "lstrip": False,
                    "normalized": False,
                    "rstrip": False,
                    "single_word": False,
                    "special": False,
                }
            }
        ),
    )(folder)


add(
    BERT,
    "added-token-in-config",
    config={"vocab_size": 2001},
    edit=forget_token,
    expect="refuse",
    names=("added_tokens_decoder", "tokenizer_config.json"),
    note="transformers adds the token",
)


def generic(
    kind: str,
    normalizer: normalizers.Normalizer | None = None,
    pre_tokenizer: pre_tokenizers.PreTokenizer | None = None,
    **config: Any,
) -> Callable[[], Vocabulary]:
    """A vocabulary whose class reads tokenizer.json as it is."""

    def make() -> Vocabulary:
        base = vocabularies.train(kind)
        tokenizer = Tokenizer.from_str(base.tokenizer.to_str())
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        if pre_tokenizer is not None:
            tokenizer.pre_tokenizer = pre_tokenizer
        settings = {**base.config, "tokenizer_class": "PreTrainedTokenizerFast", **config}
        return replace(base, tokenizer=tokenizer, config=settings)

    return make


add(
    BERT,
    "normalizer-sequence",
    tokens=generic(
        "bert",
        normalizers.Sequence(
            [normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]
        ),
    ),
)
add(BERT, "normalizer-nfkc", tokens=generic("bert-cased", normalizers.NFKC()))
add(
    BERT,
    "normalizer-replace",
    tokens=generic(
        "bert",
        normalizers.Sequence(
            [
                normalizers.Replace(Regex(r"[0-9]"), "0"),
                normalizers.Strip(),
                normalizers.BertNormalizer(),
            ]
        ),
    ),
)
add(
    BERT,
    "pretokenizer-whitespace",
    tokens=generic("bert", pre_tokenizer=pre_tokenizers.Whitespace()),
)
add(
    BERT,
    "pretokenizer-digits",
    tokens=generic(
        "bert",
        pre_tokenizer=pre_tokenizers.Sequence(
            [
                pre_tokenizers.WhitespaceSplit(),
                pre_tokenizers.Punctuation(),
                pre_tokenizers.Digits(individual_digits=True),
            ]
        ),
    ),
)
add(BERT, "unigram", tokens=generic("xlm-roberta"), note="BERT with XLM-R's tokenizer, as e5-small")
add(BERT, "byte-bpe", tokens=generic("roberta"))
add(XLM_ROBERTA, "generic", tokens=generic("xlm-roberta"))
add(ROBERTA, "generic", tokens=generic("roberta"))
add(
    ROBERTA,
    "prefix-space",
    tokens=lambda: vocabularies.train_roberta(add_prefix_space=True),
)
add(
    ROBERTA,
    "config-prefix-space",
    edit=edit_json("tokenizer_config.json", lambda value: value.update(add_prefix_space=True)),
    expect="refuse",
    names=("tokenizer_config.json", "add_prefix_space"),
    note="tokenizer.json has add_prefix_space false",
)


def bake_truncation(folder: Path) -> None:
    """Writes truncation and padding into tokenizer.json, as folders saved after use have."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=12, pad_id=0, pad_token="[PAD]")
    tokenizer.save(str(folder / "tokenizer.json"))


add(
    BERT,
    "truncation-in-file",
    edit=bake_truncation,
    note="as all-MiniLM-L6-v2: sentence-transformers sets both itself",
)
add(
    BERT,
    "vocab-txt-only",
    majors=OLD,
    edit=remove("tokenizer.json"),
    expect="refuse",
    names=("tokenizer.json",),
)

# Encoders.
add(ROBERTA, "cls", pooling=("cls",), after_pooling=())
add(ROBERTA, "weightedmean", pooling=("weightedmean",), after_pooling=())
add(ROBERTA, "two-types", config={"type_vocab_size": 2})
add(ROBERTA, "act-gelu_pytorch_tanh", config={"hidden_act": "gelu_pytorch_tanh"})
add(
    ROBERTA,
    "pad-id",
    config={"pad_token_id": 7, "max_position_embeddings": 80},
    note="positions begin after pad_token_id",
)
add(ROBERTA, "decoder", config={"is_decoder": True}, expect="refuse", names=("is_decoder",))
E5 = {"query": "query: ", "passage": "passage: "}
add(XLM_ROBERTA, "e5", settings={"prompts": E5})
add(XLM_ROBERTA, "cls", pooling=("cls",), after_pooling=())
add(XLM_ROBERTA, "dense", after_pooling=(dense(32, nn.Tanh()),))
add(
    XLM_ROBERTA,
    "cls-normalized",
    pooling=("cls",),
    settings={"prompts": E5, "default_prompt_name": "passage"},
)
add(XLM_ROBERTA, "heads-of-64", config={"hidden_size": 128, "intermediate_size": 256})
add(DISTILBERT, "cls", pooling=("cls",), after_pooling=())
add(DISTILBERT, "dense", after_pooling=(dense(48, nn.Tanh()),))
add(DISTILBERT, "relu", config={"activation": "relu"})
add(DISTILBERT, "sinusoidal", config={"sinusoidal_pos_embds": True})
add(
    DISTILBERT,
    "bert-tokenizer",
    tokens="bert",
    majors=NEW,
    note="the tokenizer returns token types, which the model lacks; 3.0.1 fails",
)
add(MPNET, "cls", pooling=("cls",), after_pooling=())
add(MPNET, "max", pooling=("max",), after_pooling=())
add(
    MPNET,
    "more-buckets",
    config={"relative_attention_num_buckets": 64},
    expect="refuse",
    names=("relative_attention_num_buckets",),
    note="transformers computes 32 buckets, whatever the configuration",
)
add(
    MPNET,
    "fewer-buckets",
    config={"relative_attention_num_buckets": 16},
    expect="refuse",
    names=("relative_attention_num_buckets",),
    note="transformers fails",
)
add(MPNET, "relu", config={"hidden_act": "relu"})
add(MPNET, "three-heads", config={"hidden_size": 96, "num_attention_heads": 3})

NOMIC_PROMPTS = {"query": "search_query: ", "document": "search_document: "}
add(NOMIC, "prompts", settings={"prompts": NOMIC_PROMPTS, "default_prompt_name": "document"})
add(NOMIC, "matryoshka", after_pooling=(layer_norm, normalize), settings={"truncate_dim": 32})
add(NOMIC, "cls", pooling=("cls",), after_pooling=())
add(
    NOMIC,
    "theta",
    config={"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
)
add(NOMIC, "long", max_seq_length=200)
add(NOMIC, "three-heads", config={"hidden_size": 96, "num_attention_heads": 3})

add(MODERNBERT, "cls", pooling=("cls",), after_pooling=())
add(MODERNBERT, "long", max_seq_length=200)
add(MODERNBERT, "all-global", config={"global_attn_every_n_layers": 1})
add(MODERNBERT, "every-third", config={"global_attn_every_n_layers": 3})
add(MODERNBERT, "window", config={"local_attention": 16})
add(
    MODERNBERT,
    "biases",
    config={"attention_bias": True, "norm_bias": True, "mlp_bias": True},
)
for activation in ("gelu_pytorch_tanh", "silu"):
    add(MODERNBERT, f"act-{activation}", config={"hidden_activation": activation})
add(MODERNBERT, "eps", config={"norm_eps": 1e-2})
add(
    MODERNBERT,
    "theta",
    config={
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        }
    },
)
add(
    MODERNBERT,
    "config-4",
    edit=edit_json(
        "config.json",
        lambda value: {
            **{k: v for k, v in value.items() if k not in ("rope_parameters", "layer_types")},
            "global_rope_theta": 500.0,
            "local_rope_theta": 100.0,
        },
    ),
    note="members that transformers 4 wrote",
)
add(MODERNBERT, "classification", edit=save_with_head("ModernBertForSequenceClassification"))

add(QWEN, "mean", pooling=("mean",), after_pooling=())
add(QWEN, "padding-right", tokens="qwen-right")
add(QWEN, "attention-bias", config={"attention_bias": True})
add(QWEN, "heads-of-64", config={"head_dim": 64, "num_attention_heads": 2})
add(QWEN, "one-kv-head", config={"num_key_value_heads": 1})
add(QWEN, "no-gqa", config={"num_key_value_heads": 4})
add(QWEN, "matryoshka", settings={**QWEN.settings, "truncate_dim": 32})
add(QWEN, "long", max_seq_length=200)
add(QWEN, "eps", config={"rms_norm_eps": 1e-2})
add(QWEN, "truncation-left", tokens=with_config("qwen", truncation_side="left"))
add(
    QWEN,
    "config-4",
    edit=edit_json(
        "config.json",
        lambda value: {
            **{k: v for k, v in value.items() if k not in ("rope_parameters", "layer_types")},
            "rope_theta": 1000.0,
            "rope_scaling": None,
        },
    ),
    note="members that transformers 4 wrote",
)
add(
    QWEN,
    "sliding-window",
    config={"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    expect="refuse",
    names=("sliding_window", "layer_types", "use_sliding_window"),
)
add(
    QWEN,
    "yarn",
    config={
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 128,
        }
    },
    expect="refuse",
    names=("rope_type", "rope_parameters", "rope_scaling", "yarn"),
)
add(QWEN, "no-end", tokens=lambda: without_end(), empty_text=False, note="no post-processor")


def without_end() -> Vocabulary:
    base = vocabularies.train("qwen")
    tokenizer = Tokenizer.from_str(base.tokenizer.to_str())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return replace(base, tokenizer=tokenizer)


CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
add(
    QWEN,
    "chat-template",
    tokens=with_config("qwen", chat_template=CHAT),
    expect="refuse",
    names=("modality_config", "`message`", "chat_template"),
    note="6.2 renders texts as chat messages if the saved modality_config has `message`",
)

add(GEMMA, "no-prompts", settings={})
add(GEMMA, "plain", after_pooling=())
add(GEMMA, "long", max_seq_length=200)
add(GEMMA, "window", config={"sliding_window": 8})
add(GEMMA, "scalar", config={"query_pre_attn_scalar": 64})
add(GEMMA, "heads-of-64", config={"head_dim": 64, "query_pre_attn_scalar": 64})
add(
    GEMMA,
    "causal",
    config={"use_bidirectional_attention": False},
    expect="refuse",
    names=("use_bidirectional_attention",),
)
add(
    GEMMA,
    "config-4",
    edit=edit_json(
        "config.json",
        lambda value: {
            **{k: v for k, v in value.items() if k not in ("rope_parameters", "layer_types")},
            "rope_theta": 1000.0,
            "rope_local_base_freq": 100.0,
            "rope_scaling": None,
            "_sliding_window_pattern": 2,
            "sliding_window_pattern": 2,
        },
    ),
    note="members that transformers 4 wrote",
)
add(
    GEMMA,
    "rope-linear",
    config={
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        }
    },
    expect="refuse",
    names=("rope_type", "rope_parameters", "rope_scaling", "linear"),
)
add(GEMMA, "unigram", tokens=generic("xlm-roberta"), note="Unigram with Metaspace")

# Static embeddings.
add(STATIC, "normalize", after_pooling=(normalize,))
add(STATIC, "prompts", settings={"prompts": PROMPTS, "default_prompt_name": "query"})
add(STATIC, "f16", dtype=torch.float16)
add(STATIC, "unigram", tokens="xlm-roberta")
add(STATIC, "dense", after_pooling=(dense(32, nn.Tanh()),))
add(STATIC, "matryoshka", settings={"truncate_dim": 32})
add(
    STATIC,
    "model2vec",
    edit=rename_tensors(lambda name: "embeddings"),
    note="the tensor's name in folders of model2vec",
)


def fold_vocabulary(folder: Path) -> None:
    """A mapping and weights of tokens, as model2vec writes them."""
    table = read_tensors(folder)["embedding.weight"]
    rows = table.shape[0]
    tensors = {
        "embeddings": table[: rows // 2].contiguous(),
        "mapping": torch.arange(rows, dtype=torch.int64) % (rows // 2),
        "weights": torch.linspace(0.5, 1.5, rows),
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


add(
    STATIC,
    "model2vec-mapping",
    edit=fold_vocabulary,
    expect="refuse",
    names=("mapping", "model2vec"),
)

# Modules that an engine need not have.


def word_weights(_dimension: int, vocabulary: Vocabulary) -> nn.Module:
    words = [
        token for token, _ in sorted(vocabulary.tokenizer.get_vocab().items(), key=lambda x: x[1])
    ]
    weights = {word: 0.1 + (index % 17) / 10 for index, word in enumerate(words)}
    return modules.WordWeights(words, weights)


def convolution(dimension: int, _vocabulary: Vocabulary) -> nn.Module:
    return modules.CNN(dimension, out_channels=32, kernel_sizes=[1, 3])


def recurrent(dimension: int, _vocabulary: Vocabulary) -> nn.Module:
    return modules.LSTM(dimension, hidden_dim=32)


def weighted_layers(dimension: int, _vocabulary: Vocabulary) -> nn.Module:
    return modules.WeightedLayerPooling(dimension, num_hidden_layers=2, layer_start=1)


for name, kind, maker in (
    ("word-weights", "WordWeights", word_weights),
    ("cnn", "CNN", convolution),
    ("lstm", "LSTM", recurrent),
    ("weighted-layers", "WeightedLayerPooling", weighted_layers),
):
    add(
        BERT,
        name,
        config={"output_hidden_states": True} if name == "weighted-layers" else {},
        before_pooling=(maker,),
        expect="refuse",
        names=(kind,),
        batch_differs=True,
    )


def route(parts: list[Any]) -> list[Any]:
    """Queries and documents take different modules."""
    if MAJOR == "old":
        branches = {
            "query": [modules.Dense(64, 32)],
            "document": [modules.Dense(64, 32)],
        }
        return [*parts, modules.Asym(branches, allow_empty_key=True)]
    tokenizer = Tokenizer.from_str(vocabularies.train("bert").tokenizer.to_str())
    static = modules.StaticEmbedding(tokenizer, embedding_dim=64)
    return [modules.Router({"query": parts, "document": [static]}, default_route="query")]


add(BERT, "router", arrange=route, expect="refuse", names=("Router", "Asym"))
add(
    BERT,
    "custom-module",
    edit=edit_json(
        "modules.json",
        lambda value: value[1].update(type="custom_pooling.AttentionPooling"),
    ),
    expect="refuse",
    names=("custom_pooling", "AttentionPooling"),
)


def bag_of_words(folder: Path) -> None:
    """Replaces the folder by sentence-transformers' bag of words."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    bag = modules.BoW(vocab=["the", "fox", "enclave", "text", "code", "a", "hello"])
    sentence_transformers.SentenceTransformer(modules=[bag], device="cpu").save(
        str(folder), create_model_card=False
    )


add(BERT, "bag-of-words", edit=bag_of_words, expect="refuse", names=("BoW",))

# Architectures that an engine need not have.
FOREIGN: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("albert", "bert", {**BERT.config, "embedding_size": 32}, ("old", "new")),
    ("electra", "bert", {**BERT.config, "embedding_size": 64}, ("old", "new")),
    ("deberta-v2", "bert", {**BERT.config, "relative_attention": True}, ("old", "new")),
    ("camembert", "xlm-roberta", ROBERTA.config, ("old", "new")),
    (
        "t5",
        "t5",
        {"d_model": 64, "d_kv": 32, "d_ff": 128, "num_layers": 2, "num_heads": 2},
        ("old", "new"),
    ),
    ("mistral", "qwen", {**QWEN.config, "sliding_window": None}, ("old", "new")),
    (
        "qwen2",
        "qwen",
        {**QWEN.config, "num_attention_heads": 2, "num_key_value_heads": 1},
        ("old", "new"),
    ),
    ("llama", "qwen", {**QWEN.config, "num_attention_heads": 2}, ("old", "new")),
    ("gpt2", "qwen", {"n_embd": 64, "n_head": 2, "n_layer": 2, "n_positions": 512}, ("old", "new")),
    ("eurobert", "qwen", {**QWEN.config, "num_attention_heads": 2, "mask_token_id": 5}, NEW),
    ("gte", "xlm-roberta", {**BERT.config, "max_position_embeddings": 256}, NEW),
    ("jina_embeddings_v3", "xlm-roberta", {**ROBERTA.config}, NEW),
    ("ernie", "bert", BERT.config, ("old", "new")),
    ("mobilebert", "bert", {**BERT.config, "embedding_size": 32}, ("old", "new")),
)
for architecture, kind, config, majors in FOREIGN:
    RECIPES.append(
        replace(
            BERT,
            name=f"foreign-{architecture}",
            architecture=architecture,
            tokens=kind,
            config=config,
            majors=majors,
            expect="refuse",
            names=("model_type", architecture),
            batch_differs=True,
        )
    )
