#!/usr/bin/env bash
# sentence-transformers 6.2.0 with transformers 5.24.0 (PyPI): a model with `do_lower_case=True` distinguishes case again after it
# was saved and loaded.
#
# Expected: the loaded model gives the vectors of the saved one, so upper and lower case stay equal.
# Observed: `save_pretrained` writes the step Lowercase into tokenizer.json, and no `do_lower_case` into sentence_bert_config.json.
# Loading builds the tokenizer again from `tokenizer_class` and tokenizer_config.json, which drops the step without a message.
#
# Output seen:
#   before saving: upper and lower case have the same tokens: yes
#   tokenizer.json has the step Lowercase: yes
#   after loading: upper and lower case have the same tokens: no
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sentence-transformers==6.2.0 transformers==5.24.0 torch==2.15.0

cat > "$folder/compare.py" <<'PYTHON'
import json
import pathlib
import sys
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizer

torch.manual_seed(7)
folder = pathlib.Path(sys.argv[1])
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "HELLO"]
(folder / "vocab.txt").write_text("\n".join(words))
plain, saved = folder / "plain", folder / "saved"
BertTokenizer(str(folder / "vocab.txt"), do_lower_case=False).save_pretrained(plain)
BertModel(BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=1,
                     intermediate_size=32, max_position_embeddings=16)).save_pretrained(plain)

def same_tokens(model):
    upper, lower = (model.tokenizer(text)["input_ids"] for text in ("HELLO", "hello"))
    return upper == lower

def word(value):
    return "yes" if value else "no"

encoder = Transformer(str(plain), do_lower_case=True)
before = SentenceTransformer(modules=[encoder, Pooling(32)])
first = same_tokens(before)
before.save_pretrained(str(saved))
written = "Lowercase" in json.dumps(json.loads((saved / "tokenizer.json").read_text())["normalizer"])
second = same_tokens(SentenceTransformer(str(saved)))
print("before saving: upper and lower case have the same tokens:", word(first))
print("tokenizer.json has the step Lowercase:", word(written))
print("after loading: upper and lower case have the same tokens:", word(second))
sys.exit(not (first and written and not second))
PYTHON
"$folder/venv/bin/python" "$folder/compare.py" "$folder" 2>/dev/null
