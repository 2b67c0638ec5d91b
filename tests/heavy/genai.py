#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small decoders with random weights as onnxruntime-genai exports them: ranges of each value beside ONNX Runtime's, and decoding.

usage: genai.py TIDEMARK FOLDER [--only NAME,...] [--kinds KIND,...]

A kind is PRECISION-PROVIDER, with further options of the exporter behind it, such as int4-cpu-is_symmetric=false. Needs
onnxruntime-genai, onnxruntime, torch, transformers and tokenizers; nothing is downloaded.
"""
import argparse
import contextlib
import io
import json
import logging
import os
import shutil
import subprocess
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

VOCABULARY, LENGTHS = 256, (9, 23, 5, 30)
SIZES = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=2)
KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
LONG = dict(type="longrope", short_factor=[1.0] * 8, long_factor=[2.0] * 8)
YARN = dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=4096)
WINDOWED = dict(head_dim=16, sliding_window=16)
CONVOLVED = dict(layer_types=["conv", "full_attention", "conv"], conv_L_cache=3)
HYBRID = dict(SIZES, head_dim=64, layer_types=["linear_attention", "full_attention", "linear_attention"], linear_num_key_heads=2,
              linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
              rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[3, 3, 2], partial_rotary_factor=0.25,
                                   mrope_interleaved=True))
VISION = dict(depth=1, hidden_size=32, intermediate_size=64, num_heads=2, out_hidden_size=64)
# name: (configuration, model, its arguments)
MODELS = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "mistral": ("MistralConfig", "MistralForCausalLM", WINDOWED),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", dict(head_dim=16)),
    "qwen3_5": ("Qwen3_5Config", "Qwen3_5ForConditionalGeneration", dict(text_config=HYBRID, vision_config=VISION)),
    "qwen3_5_moe": ("Qwen3_5MoeConfig", "Qwen3_5MoeForConditionalGeneration", dict(
        text_config=dict(HYBRID, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=64),
        vision_config=VISION)),
    "phi": ("PhiConfig", "PhiForCausalLM", dict(hidden_size=128, partial_rotary_factor=0.5)),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", dict(original_max_position_embeddings=256)),
    "phi4_mini": ("Phi3Config", "Phi3ForCausalLM", dict(
        hidden_size=256, original_max_position_embeddings=64, partial_rotary_factor=0.75, tie_word_embeddings=True,
        rope_scaling=dict(type="longrope", short_factor=[1.0] * 24, long_factor=[2.0] * 24))),
    "phi3_long": ("Phi3Config", "Phi3ForCausalLM", dict(original_max_position_embeddings=64, rope_scaling=LONG)),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", dict(head_dim=16)),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", dict(WINDOWED, query_pre_attn_scalar=16)),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", dict(
        WINDOWED, query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        final_logit_softcapping=30.0)),
    "granite": ("GraniteConfig", "GraniteForCausalLM", dict(embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0)),
    "granite_hybrid": ("GraniteMoeHybridConfig", "GraniteMoeHybridForCausalLM", dict(
        layer_types=["attention"] * 3, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=128,
        position_embedding_type="rope", embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0)),
    "nemotron": ("NemotronConfig", "NemotronForCausalLM", dict(partial_rotary_factor=0.5, head_dim=32)),
    "olmo": ("OlmoConfig", "OlmoForCausalLM", {}),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}),
    "ernie": ("Ernie4_5Config", "Ernie4_5ForCausalLM", {}),
    "hunyuan": ("HunYuanDenseV1Config", "HunYuanDenseV1ForCausalLM", dict(head_dim=16)),
    "lfm2": ("Lfm2Config", "Lfm2ForCausalLM", CONVOLVED),
    "lfm2_moe": ("Lfm2MoeConfig", "Lfm2MoeForCausalLM", dict(CONVOLVED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64,
                                                             num_dense_layers=1)),
    "gpt_oss": ("GptOssConfig", "GptOssForCausalLM", dict(
        head_dim=64, num_local_experts=4, num_experts_per_tok=2, sliding_window=16, intermediate_size=64, rope_theta=150000.0,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_scaling=YARN)),
}


def write_checkpoint(name, folder):
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers
    configuration, model, arguments = MODELS[name]
    made = getattr(transformers, configuration)(**(arguments if "text_config" in arguments else SIZES | arguments))
    torch.manual_seed(0)
    network = getattr(transformers, model)(made).float().eval()
    for parameter in network.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(2)
    network.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", bos_token="w1", eos_token="w2",
                                         pad_token="w2").save_pretrained(folder)
    path = folder / "config.json"  # the exporter looks for the base where it was in former releases
    config = json.loads(path.read_text())
    if isinstance(config.get("rope_parameters"), dict):
        config.setdefault("rope_theta", config["rope_parameters"].get("rope_theta", 10000.0))
        path.write_text(json.dumps(config))


@contextlib.contextmanager
def rotation_of_former_releases():
    """Gemma 3 has rotary parameters a kind of layer in transformers 5, for which the exporter does not look."""
    from transformers import AutoConfig
    load = AutoConfig.from_pretrained

    def flat(*words, **more):
        loaded = load(*words, **more)
        kinds = getattr(loaded, "rope_parameters", None)
        if getattr(loaded, "model_type", "") == "gemma3_text" and "full_attention" in kinds:
            loaded.rope_local_base_freq = kinds["sliding_attention"]["rope_theta"]
            loaded.rope_parameters, loaded.rope_theta = kinds["full_attention"], kinds["full_attention"]["rope_theta"]
        return loaded

    AutoConfig.from_pretrained = flat
    try:
        yield
    finally:
        AutoConfig.from_pretrained = load


def export(name, kind, folder):
    from onnxruntime_genai.models import builder
    precision, provider, *options = kind.split("-")
    checkpoint, target = folder / "checkpoints" / name, folder / f"{name}-{kind}"
    if not (checkpoint / "config.json").exists():
        write_checkpoint(name, checkpoint)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    where = name, str(checkpoint), str(target), precision, provider, str(folder / "cache")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), rotation_of_former_releases():
        builder.create_model(*where, **builder.parse_extra_options(*where, ["hf_token=false", *options]))
    return target


def with_all_outputs(folder):
    """A session that gives each value, and what windows of caches it has: those need room for all positions in ONNX Runtime."""
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    windows = set()
    for node in model.graph.node:
        given = {attribute.name: attribute for attribute in node.attribute}
        if "accuracy_level" in given:
            given["accuracy_level"].i = 1  # products in float32
        if "sliding_window_cache" in given and given["sliding_window_cache"].i:
            windows.update([*node.input[3:5], *node.output[1:3]])
    known = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for node in model.graph.node for name in node.output
                              if name and name not in known)
    onnx.save(model, folder / "all.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(folder / "all.onnx", options, providers=["CPUExecutionProvider"]), windows


def feed_of(session, tokens, head, windows):
    feed = {}
    for value in session.get_inputs():
        kind = KINDS[value.type]
        if "position" in value.name:
            feed[value.name] = np.broadcast_to(np.arange(len(tokens), dtype=kind), [3] * (len(value.shape) == 3) + [1, len(tokens)]).copy()
        elif "mask" in value.name:
            feed[value.name] = np.ones((1, len(tokens)), kind)
        elif "ids" in value.name:
            feed[value.name] = np.array([tokens], kind)
        else:
            room = 64 if value.name in windows else 0
            shape = [size if isinstance(size, int) else (1, 0, room, head)[i] for i, size in enumerate(value.shape)]
            feed[value.name] = np.zeros(shape, kind)
    return feed


def compare(folder, prompts, measured):
    """How many values there are, and the largest difference of an end, as a share of the range."""
    session, windows = with_all_outputs(folder)
    head = json.loads((folder / "genai_config.json").read_text())["model"]["decoder"]["head_size"]
    ends = {}
    for tokens in prompts:
        for output, array in zip(session.get_outputs(), session.run(None, feed_of(session, tokens, head, windows))):
            if array is None or array.dtype not in (np.float32, np.float16) or not array.size or output.name in windows:
                continue
            low, high = ends.get(output.name, (np.inf, -np.inf))
            ends[output.name] = min(low, float(array.min())), max(high, float(array.max()))
    tensors = {tensor["name"]: tensor for tensor in measured["tensors"]}
    return len(ends), max(max(abs(tensors[name]["min"] - low), abs(tensors[name]["max"] - high)) / max(high - low, abs(high), 1e-9)
                          for name, (low, high) in ends.items())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tidemark")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--kinds", default="fp32-cpu,int4-cpu,fp16-cuda")
    words = parser.parse_args()
    logging.disable(logging.ERROR)
    random = np.random.default_rng(0)
    prompts = [random.integers(3, VOCABULARY, n).tolist() for n in LENGTHS]
    words.folder.mkdir(parents=True, exist_ok=True)
    data = words.folder / "prompts.jsonl"
    data.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    for name in words.only.split(","):
        for kind in words.kinds.split(","):
            title = f"{name} {kind}"
            try:
                folder = export(name, kind, words.folder.resolve())
            except Exception as why:  # of the exporter: any
                print(f"{title}: not exported: {type(why).__name__} {str(why)[:100]}", flush=True)
                continue
            runs = []
            for target, more in (("profile.json", []), ("decoded.json", ["--generate", "4"])):
                command = [words.tidemark, "profile", folder / "model.onnx", "--data", data, "-q", "-o", folder / target, *more]
                runs.append(subprocess.run(command, capture_output=True, text=True, check=False))
            if any(run.returncode for run in runs):
                print(f"{title}: FAILED: {''.join(run.stderr for run in runs).strip()[:300]}", flush=True)
                continue
            try:
                values, worst = compare(folder, prompts, json.loads((folder / "profile.json").read_text()))
                print(f"{title}: {values} values, at most {worst:.1e} of the range apart", flush=True)
            except Exception as why:  # of ONNX Runtime, whose CPU provider lacks some kernels
                print(f"{title}: profiled and decoded; ONNX Runtime: {str(why).splitlines()[0][:160]}", flush=True)


if __name__ == "__main__":
    main()
