"""Makes the folder that all engines read: `python export.py MODEL OUT`.

Copies the sentence-transformers folder MODEL to OUT, and adds onnx/model.onnx and onnx/model_quantized.onnx (dynamic quantisation,
eight bits, one scale per channel; transformers.js calls it `q8`).
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from transformers import AutoModel

model, out = map(pathlib.Path, sys.argv[1:])
shutil.copytree(model, out, dirs_exist_ok=True)
(out / "onnx").mkdir(exist_ok=True)
# Engines other than sentence-transformers read the tokenizer's settings from here.
settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 256, "pad_token": "[PAD]"}
for name, token in {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}.items():
    settings[f"{name}_token"] = token
(out / "tokenizer_config.json").write_text(json.dumps(settings))
names = {key.removesuffix("_token"): value for key, value in settings.items() if str(key).endswith("_token")}
(out / "special_tokens_map.json").write_text(json.dumps({f"{key}_token": value for key, value in names.items()}))
vocabulary = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
(out / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n", encoding="utf-8")

network = AutoModel.from_pretrained(model, attn_implementation="eager").eval()
inputs = ["input_ids", "attention_mask", "token_type_ids"]
example = tuple(torch.ones((2, 8), dtype=torch.int64) for _ in inputs)
axes = {name: {0: "batch", 1: "length"} for name in [*inputs, "last_hidden_state"]}
file = str(out / "onnx/model.onnx")
torch.onnx.export(
    network,
    example,
    file,
    input_names=inputs,
    output_names=["last_hidden_state"],
    dynamic_axes=axes,
    opset_version=17,
    dynamo=False,
)
quantize_dynamic(file, str(out / "onnx/model_quantized.onnx"), weight_type=QuantType.QInt8, per_channel=True)
