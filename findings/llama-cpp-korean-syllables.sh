#!/usr/bin/env bash
# llama.cpp, in node-llama-cpp 3.22.1 (npm), reads Korean syllables and Devanagari words by their consonants alone with a BERT vocabulary.
#
# Expected: the tokens of the tokenizer from which the vocabulary was taken: BERT decomposes a syllable into its letters (NFD), and the
# vocabulary has all of them.
# Observed: of each syllable, only the first letter remains, and vowel signs are gone: "한" and "하" are the same text, as are "की" and "क". The
# vectors of such texts are far from those of every other engine, without a message; English and accented Latin text is not affected.
#
# Output seen:
#   tokenizers: 한 = ᄒ ##ᅡ ##ᆫ; 하 = ᄒ ##ᅡ; क = क; की = क ##ी; é = e
#   llama.cpp: 한 = ᄒ; 하 = ᄒ; क = क; की = क; é = e
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gguf==0.19.0 tokenizers==0.22.2
cat >"$folder/write.py" <<'PYTHON'
import sys
import gguf
from tokenizers import BertWordPieceTokenizer

tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u1112", "##\u1161", "##\u11ab", "\u0915", "##\u0940", "e"]
texts = ["한", "하", "क", "की", "é"]
tokenizer = BertWordPieceTokenizer({token: number for number, token in enumerate(tokens)}, lowercase=True)
read = [f"{text} = {' '.join(tokenizer.encode(text, add_special_tokens=False).tokens)}" for text in texts]
print("tokenizers:", "; ".join(read))

writer = gguf.GGUFWriter(sys.argv[1], "bert")
writer.add_context_length(16)
writer.add_embedding_length(32)
writer.add_block_count(1)
writer.add_feed_forward_length(32)
writer.add_head_count(1)
writer.add_token_type_count(2)
writer.add_layer_norm_eps(1e-12)
writer.add_causal_attention(False)
writer.add_tokenizer_model("bert")
writer.add_tokenizer_pre("jina-v2-en")
# The form in which llama.cpp stores word pieces: the beginning of a word is marked, its rest is not.
names = [token if token[0] == "[" else token[2:] if token[:2] == "##" else "\u2581" + token for token in tokens]
writer.add_token_list(names)
writer.add_token_types([gguf.TokenType.CONTROL if token[0] == "[" else gguf.TokenType.NORMAL for token in tokens])
writer.add_pad_token_id(0)
writer.add_unk_token_id(1)
writer.add_bos_token_id(2)
writer.add_sep_token_id(3)
writer.add_mask_token_id(4)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
PYTHON
seen=$("$folder/venv/bin/python" "$folder/write.py" "$folder/vocabulary.gguf")

npm install --silent --ignore-scripts --prefix "$folder" node-llama-cpp@3.22.1 >/dev/null
cat >"$folder/read.mjs" <<'JAVASCRIPT'
import { getLlama } from "node-llama-cpp";

const names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u1112", "##\u1161", "##\u11ab", "\u0915", "##\u0940", "e"];
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
const model = await llama.loadModel({ modelPath: process.argv[2], vocabOnly: true });
const read = ["한", "하", "क", "की", "é"].map((text) => `${text} = ${model.tokenize(text).map((token) => names[token]).join(" ")}`);
console.log(`llama.cpp: ${read.join("; ")}`);
process.exit(0);
JAVASCRIPT
# It reports the missing tensors of a file that has a vocabulary alone.
seen+=$'\n'$(node "$folder/read.mjs" "$folder/vocabulary.gguf" 2>/dev/null)
echo "$seen"
[ "$seen" = "$(sed -n 's/^#   //p' "$0")" ]
