"""Trains small tokenizers in the forms that public embedding models have.

The trainers of `tokenizers` for WordPiece and Unigram give another vocabulary in each run, so that
these two are built from counts here.
"""

from __future__ import annotations

import functools
import io
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import sentencepiece
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

# Qwen2's pattern, from its tokenizer.json.
QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SENTENCES = [
    "Größere Übungen heißen im Süden Überprüfungen; die Straße führt nach Köln und Würzburg.",
    "Der Dienst prüft den Nachweis, bevor ein Text gesendet wird. Schöne Grüße aus München!",
    "Jeder Schlüssel gehört genau einer Umgebung, und niemand außerhalb liest die Wörter.",
    "人工智能正在改变世界。请在发送文本之前验证代码。向量表示句子的含义。",
    "机密计算保护使用中的数据，远程证明说明哪些代码在运行。",
    "Café déjà vu naïve résumé “quoted” … – — €5 £7 ½ ² ™ ﬁne",
    "Patient reports chest pain radiating to the left arm, onset two hours ago.",
    "An enclave proves which code will read a text before the text is sent.",
    "On 2026-11-28 it cost $1,024.50 (3.14159%); see §7, #42 and https://example.org/a?b=c&d=e!",
    "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG.",
]


@functools.cache
def read_corpus() -> list[str]:
    """English from Python's own documentation, and sentences in German and Chinese."""
    english = "\n".join(topics[name] for name in sorted(topics))[:200_000]
    lines = [line.strip() for line in english.splitlines() if line.strip()]
    return lines + SENTENCES * 20


@dataclass(frozen=True)
class Vocabulary:
    """A trained tokenizer and its tokenizer_config.json."""

    tokenizer: Tokenizer
    config: dict[str, Any]
    ids: dict[str, int]
    files: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.tokenizer.get_vocab_size()

    def write(self, folder: Path) -> None:
        """Writes tokenizer.json and tokenizer_config.json."""
        self.tokenizer.save(str(folder / "tokenizer.json"))
        config = json.dumps(self.config, indent=2, ensure_ascii=False)
        (folder / "tokenizer_config.json").write_text(config)


def assign_ids(tokenizer: Tokenizer, config: dict[str, Any]) -> dict[str, int]:
    """Maps `pad_token_id` and the like to the ids of the tokens that the configuration names."""
    ids = {}
    for kind in ("pad", "bos", "eos", "cls", "sep", "unk", "mask"):
        token = config.get(f"{kind}_token")
        if token is not None:
            ids[f"{kind}_token_id"] = tokenizer.token_to_id(token)
    return ids


def finish(tokenizer: Tokenizer, config: dict[str, Any]) -> Vocabulary:
    return Vocabulary(tokenizer, config, assign_ids(tokenizer, config))


def choose_pieces(tokenizer: Tokenizer, mark: str, size: int) -> list[tuple[str, int]]:
    """The most frequent beginnings and continuations of words, with their counts.

    `mark` precedes a continuation. All single characters come first, so that any word of the corpus
    has pieces.
    """
    words: Counter[str] = Counter()
    for line in read_corpus():
        text = tokenizer.normalizer.normalize_str(line)
        words.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    pieces: Counter[str] = Counter()
    characters = set()
    for word, count in words.items():
        for end in range(1, len(word) + 1):
            pieces[word[:end]] += count
        characters.add(word[0])
        for start in range(1, len(word)):
            characters.add(mark + word[start])
            for end in range(start + 1, min(start + 5, len(word)) + 1):
                pieces[mark + word[start:end]] += count
    longer = [piece for piece in pieces if piece not in characters]
    longer.sort(key=lambda piece: (-pieces[piece] * len(piece), piece))
    chosen = sorted(characters) + longer[: size - len(characters)]
    return [(piece, pieces[piece]) for piece in chosen]


def build_wordpiece(normalizer: normalizers.Normalizer, special: list[str], size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    pieces = [piece for piece, _ in choose_pieces(tokenizer, "##", size - len(special))]
    tokens = [*special, *(piece for piece in pieces if piece not in special)]
    tokenizer.model = models.WordPiece(
        {token: index for index, token in enumerate(tokens)},
        unk_token="[UNK]",
        max_input_chars_per_word=100,
    )
    tokenizer.add_special_tokens(special)
    return tokenizer


def train_wordpiece(
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    size: int = 2000,
    tokenizer_class: str = "BertTokenizer",
    config: dict[str, Any] | None = None,
) -> Vocabulary:
    """BERT's tokenizer."""
    normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip_accents, lowercase=lowercase
    )
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = build_wordpiece(normalizer, special, size)
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", cls), ("[SEP]", sep)],
    )
    return finish(
        tokenizer,
        {
            "tokenizer_class": tokenizer_class,
            "model_max_length": 512,
            "do_lower_case": lowercase,
            "strip_accents": strip_accents,
            "tokenize_chinese_chars": True,
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
            **(config or {}),
        },
    )


def train_mpnet(size: int = 2000) -> Vocabulary:
    """MPNet's tokenizer: BERT's vocabulary after RoBERTa's special tokens."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "[PAD]", "[UNK]", "<mask>"]
    tokenizer = build_wordpiece(normalizers.BertNormalizer(lowercase=True), special, size)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return finish(
        tokenizer,
        {
            "tokenizer_class": "MPNetTokenizer",
            "model_max_length": 512,
            "do_lower_case": True,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "cls_token": "<s>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "[UNK]",
            "mask_token": "<mask>",
        },
    )


def train_byte_bpe(special: list[str], size: int, add_prefix_space: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        min_frequency=2,
    )
    tokenizer.train_from_iterator(read_corpus(), trainer)
    return tokenizer


def train_roberta(size: int = 2000, add_prefix_space: bool = False) -> Vocabulary:
    """RoBERTa's tokenizer."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = train_byte_bpe(special, size, add_prefix_space)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=add_prefix_space
    )
    return finish(
        tokenizer,
        {
            "tokenizer_class": "RobertaTokenizer",
            "model_max_length": 512,
            "add_prefix_space": add_prefix_space,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "cls_token": "<s>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "mask_token": "<mask>",
        },
    )


def train_modernbert(size: int = 2000) -> Vocabulary:
    """ModernBERT's tokenizer: byte-level BPE, NFC, runs of spaces as added tokens."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>"]
    tokenizer = train_byte_bpe(special, size)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(" " * count, normalized=True) for count in range(8, 1, -1)])
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", cls), ("[SEP]", sep)],
    )
    return finish(
        tokenizer,
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 8192,
            "model_input_names": ["input_ids", "attention_mask"],
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        },
    )


def train_qwen(size: int = 2000, padding_side: str = "left") -> Vocabulary:
    """Tokenizer of Qwen3-Embedding: its post-processor appends the end of text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        min_frequency=2,
    )
    tokenizer.train_from_iterator(read_corpus(), trainer)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    end = tokenizer.token_to_id("<|endoftext|>")
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False, add_prefix_space=False),
            processors.TemplateProcessing(
                single="$A:0 <|endoftext|>:0",
                pair="$A:0 <|endoftext|>:0 $B:1 <|endoftext|>:1",
                special_tokens=[("<|endoftext|>", end)],
            ),
        ]
    )
    return finish(
        tokenizer,
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "model_max_length": 131072,
            "padding_side": padding_side,
            "add_prefix_space": False,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
        },
    )


@functools.cache
def extract_charsmap() -> bytes:
    """The compiled map of SentencePiece's normalisation `nmt_nfkc`, as in XLM-R's folder."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(read_corpus()),
        model_writer=model,
        vocab_size=500,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    # `normalizer_spec` is field 3 of the model, `precompiled_charsmap` field 2 of it.
    return find_field(find_field(model.getvalue(), 3), 2)


def find_field(message: bytes, wanted: int) -> bytes:
    """The first length-delimited field with this number in a Protocol Buffers message."""

    def read_varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    at = 0
    while at < len(message):
        key, at = read_varint(at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            _, at = read_varint(at)
        elif wire == 2:
            length, at = read_varint(at)
            if number == wanted:
                return message[at : at + length]
            at += length
        else:
            at += {1: 8, 5: 4}[wire]
    raise ValueError(f"the message has no field {wanted}")


def train_xlm_roberta(size: int = 2000) -> Vocabulary:
    """XLM-R's tokenizer: Unigram, nmt_nfkc, Metaspace."""
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0)], unk_id=0))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(extract_charsmap()), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = choose_pieces(tokenizer, "", size - len(special))
    total = sum(count for _, count in pieces)
    scores = [(piece, round(math.log(max(count, 1) / total), 6)) for piece, count in pieces]
    tokenizer.model = models.Unigram(
        [*((token, 0.0) for token in special), *scores], unk_id=3, byte_fallback=False
    )
    tokenizer.add_special_tokens(special)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return finish(
        tokenizer,
        {
            "tokenizer_class": "XLMRobertaTokenizer",
            "model_max_length": 512,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "cls_token": "<s>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "mask_token": "<mask>",
        },
    )


def train_gemma(size: int = 2500) -> Vocabulary:
    """Gemma's tokenizer: BPE over text whose spaces are ▁, bytes for unknown characters."""
    tokenizer = Tokenizer(
        models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True, ignore_merges=False)
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", behavior="merged_with_next")
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    rng = random.Random(1)
    corpus = [line for line in read_corpus() if rng.random() < 0.5]
    trainer = trainers.BpeTrainer(
        vocab_size=size - 256,
        special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)],
        show_progress=False,
        min_frequency=2,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    # Bytes are ordinary tokens of the vocabulary: as added tokens they would match `<0x41>`.
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [
        token for token in state["added_tokens"] if token["content"] in special
    ]
    state["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"String": " "},
        "behavior": "MergedWithPrevious",
        "invert": False,
    }
    state["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    }
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos>:0 $A:0 <eos>:0",
        pair="<bos>:0 $A:0 <eos>:0 <bos>:1 $B:1 <eos>:1",
        special_tokens=[
            ("<bos>", tokenizer.token_to_id("<bos>")),
            ("<eos>", tokenizer.token_to_id("<eos>")),
        ],
    )
    return finish(
        tokenizer,
        {
            "tokenizer_class": "GemmaTokenizer",
            "model_max_length": 2048,
            "padding_side": "right",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "mask_token": "<mask>",
        },
    )


def train_t5(size: int = 2000) -> Vocabulary:
    """T5's tokenizer: Unigram with an end token only."""
    base = train_xlm_roberta(size).tokenizer
    state = json.loads(base.to_str())
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    return finish(
        tokenizer,
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 512,
            "model_input_names": ["input_ids", "attention_mask"],
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
        },
    )


@functools.cache
def train(kind: str) -> Vocabulary:
    """Trains one of the shared vocabularies; the result is reused."""
    makers: dict[str, Callable[[], Vocabulary]] = {
        "bert": train_wordpiece,
        "bert-cased": lambda: train_wordpiece(lowercase=False),
        "distilbert": lambda: train_wordpiece(
            tokenizer_class="DistilBertTokenizer",
            config={"model_input_names": ["input_ids", "attention_mask"]},
        ),
        "mpnet": train_mpnet,
        "roberta": train_roberta,
        "modernbert": train_modernbert,
        "qwen": train_qwen,
        "qwen-right": lambda: train_qwen(padding_side="right"),
        "xlm-roberta": train_xlm_roberta,
        "gemma": train_gemma,
        "t5": train_t5,
    }
    return makers[kind]()
