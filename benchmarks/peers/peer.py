"""One implementation of the model, with a line protocol: one line of JSON on standard input, one on standard output.

    peer.py KIND MODEL THREADS CACHE

KIND is `sentence-transformers`, `onnxruntime` or `onnxruntime-int8`. The first line of output states the versions:

    {"name": "onnxruntime", "version": "onnxruntime 1.31.1"}

Each line of input is a batch of sequences of token ids, special tokens included:

    {"sequences": [[101, 2054, 102]], "rows": false}
    {"ms": 1.93}

Each batch is embedded twice and the second pass is timed: the first loads the weights into the caches and raises the
processor's clock. The time covers the forward pass, from token ids in a Python list to embeddings in memory: padding,
tensors, pooling and normalization, but not JSON. The answer is sent once the process is idle: ONNX Runtime's idle threads
spin for 50 ms and would disturb the next contender. With `rows`, the answer holds the embeddings, so that the suite can
compare them with ours. A peer with its own tokenizer also tokenizes texts, truncated to the model's length:

    {"texts": ["hello"]}
    {"sequences": [[101, 7592, 102]]}

Closing the input ends the peer.
"""

import json
import os
import sys
import time
from pathlib import Path


def padded(sequences):
    """Pads ids and masks to rectangles, the input of these implementations."""
    longest = max(len(sequence) for sequence in sequences)
    ids = [sequence + [0] * (longest - len(sequence)) for sequence in sequences]
    mask = [[1] * len(sequence) + [0] * (longest - len(sequence)) for sequence in sequences]
    return ids, mask


def sentence_transformers(model, threads, _cache):
    import sentence_transformers
    import torch

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    whole = sentence_transformers.SentenceTransformer(str(model), device="cpu", local_files_only=True)
    whole.eval()

    def embed(sequences):
        ids, mask = padded(sequences)
        features = {
            "input_ids": torch.tensor(ids),
            "token_type_ids": torch.zeros(len(ids), len(ids[0]), dtype=torch.long),
            "attention_mask": torch.tensor(mask),
        }
        with torch.inference_mode():
            return whole(features)["sentence_embedding"].numpy()

    def word_pieces(texts):
        return [whole.tokenizer(text, truncation=True, max_length=whole.max_seq_length)["input_ids"] for text in texts]

    version = f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}"
    return embed, word_pieces, version


def onnxruntime(model, threads, cache):
    import onnxruntime as ort

    graph = fused(model, cache)
    counts = json.loads(graph.with_suffix(".json").read_text())
    fusions = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    return session(graph, threads), None, f"onnxruntime {ort.__version__}, fused f32 graph ({fusions})"


def onnxruntime_int8(model, threads, cache):
    """Dynamic quantization with one factor per column, the most exact mode that the tool offers."""
    import onnx
    import onnxruntime as ort
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = cache / f"int8-{ort.__version__}.onnx"
    if not graph.is_file():
        unfinished = graph.with_suffix(".part")
        quantize_dynamic(
            str(fused(model, cache)),
            str(unfinished),
            weight_type=QuantType.QInt8,
            per_channel=True,
            # Shape inference does not cover the fused operators.
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
        unfinished.rename(graph)
    return session(graph, threads), None, f"onnxruntime {ort.__version__}, fused graph, dynamic int8 by column"


def fused(model, cache):
    """Returns the file of the fused graph, exporting it first if it is missing."""
    import onnxruntime as ort

    graph = cache / f"fused-{ort.__version__}.onnx"
    if not graph.is_file():
        export(model, graph)
    return graph


def session(graph, threads):
    """Returns a function that embeds by running the graph."""
    import numpy
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    loaded = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in loaded.get_inputs()}

    def embed(sequences):
        ids, mask = padded(sequences)
        ids = numpy.array(ids, dtype=numpy.int64)
        mask = numpy.array(mask, dtype=numpy.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
        (hidden,) = loaded.run(None, {name: value for name, value in given.items() if name in wanted})
        weights = mask[..., None].astype(numpy.float32)
        mean = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)

    return embed


def export(model, graph):
    """Exports the model as a graph in which attention, normalization and GELU are one operator each."""
    import torch
    from onnxruntime.transformers import optimizer
    from transformers import BertModel

    # The optimizer recognizes attention only in its eager form.
    bert = BertModel.from_pretrained(str(model), attn_implementation="eager", local_files_only=True)
    bert.eval()

    class States(torch.nn.Module):
        """Returns only the last hidden states."""

        def __init__(self):
            super().__init__()
            self.bert = bert

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.bert(
                input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, return_dict=False
            )[0]

    example = torch.ones(2, 16, dtype=torch.long)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    plain = graph.with_suffix(".plain.onnx")
    with torch.inference_mode():
        torch.onnx.export(
            States(),
            (example, example, torch.zeros_like(example)),
            str(plain),
            input_names=names,
            output_names=["last_hidden_state"],
            dynamic_axes={name: {0: "batch", 1: "tokens"} for name in [*names, "last_hidden_state"]},
            opset_version=17,
            dynamo=False,
        )
    config = bert.config
    optimised = optimizer.optimize_model(
        str(plain), model_type="bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size
    )
    counts = {name: count for name, count in optimised.get_fused_operator_statistics().items() if count}
    if not counts.get("Attention"):
        raise RuntimeError(f"the optimizer did not fuse attention: {counts}")
    graph.with_suffix(".json").write_text(json.dumps(counts))
    # Rename only once complete, so that an interrupted export leaves no partial file.
    unfinished = graph.with_suffix(".part")
    optimised.save_model_to_file(str(unfinished))
    unfinished.rename(graph)
    plain.unlink()


def rest():
    """Waits until no thread of this process computes or spins."""
    used = 1.0
    while used > 0.001:
        before = time.process_time()
        # The kernel counts another processor's time at clock ticks, every 4 or 10 ms.
        time.sleep(0.02)
        used = time.process_time() - before


KINDS = {
    "onnxruntime": onnxruntime,
    "onnxruntime-int8": onnxruntime_int8,
    "sentence-transformers": sentence_transformers,
}


def main():
    kind, model, threads, cache = sys.argv[1:]
    # Libraries print to standard output, which the suite reads; redirect them.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    cache = Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    embed, word_pieces, version = KINDS[kind](Path(model), int(threads), cache)
    print(json.dumps({"name": kind, "version": version}), file=answers)
    for line in sys.stdin:
        asked = json.loads(line)
        if "texts" in asked:
            answer = {"sequences": word_pieces(asked["texts"])}
        elif asked.get("rows"):
            answer = {"rows": [[float(value) for value in row] for row in embed(asked["sequences"])]}
        else:
            embed(asked["sequences"])
            begun = time.perf_counter()
            embed(asked["sequences"])
            answer = {"ms": (time.perf_counter() - begun) * 1e3}
            rest()
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
