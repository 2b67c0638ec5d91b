# SPDX-License-Identifier: Apache-2.0
"""`--exclude-padding`: what is measured on a padded batch is what ONNX Runtime gives for its prompts one by one, without padding."""
import json

# First: it leaves the test out where packages are missing.
from oracle import execute, main, np, onnx, onnxruntime, profile, tidemark
from test_ranges import TOLERANCE, every_value, figures

from decoders import decoder, encoder, padded_prompts, prompt_feed

PROMPTS = [[1, 5, 7], [2], [3, 3, 9, 0, 8, 11, 4], [6, 10], [12, 3, 9, 1, 8, 11, 4, 20], [22, 21]]
# Of the batch, not of its prompts: positions alone; and masks of later tokens, whose queries are counted from the length alone.
SHARED = {"placed", "causal", "bias", "c64"}
DTYPES = {onnx.TensorProto.INT64: "i8", onnx.TensorProto.INT32: "i4", onnx.TensorProto.BOOL: "?", onnx.TensorProto.FLOAT: "f4"}


def one_by_one(model, prompts):
    """Figures of all float values over the prompts, each alone."""
    run, seen = every_value(model), {}
    mask = next(value for value in model.graph.input if value.name == "attention_mask").type.tensor_type.elem_type
    for prompt in prompts:
        feed = prompt_feed(model, prompt)
        feed["attention_mask"] = feed["attention_mask"].astype(DTYPES[mask])
        for name, array in run(feed).items():
            seen.setdefault(name, []).append(array)
    return {name: figures(arrays) for name, arrays in seen.items()}


def measured(path, model, prompts, left, *words):
    """The profile of one padded batch."""
    ids, mask = padded_prompts(prompts, left)
    feed = prompt_feed(model, ids, mask)
    kind = next(value for value in model.graph.input if value.name == "attention_mask").type.tensor_type.elem_type
    feed["attention_mask"] = mask.astype(DTYPES[kind])
    onnx.save(model, path / "m.onnx")
    np.savez(path / "b.npz", **{name: array for name, array in feed.items() if array.size})
    more = ["--dim", "past=0"] if any("past" in value.name for value in model.graph.input) else []
    return profile(path / "m.onnx", path / "b.npz", path / "b.json", "--batch", len(prompts), "--exclude-padding", "attention_mask",
                   *more, *words)


def compare(title, made, wanted, shared=SHARED):
    """Counts exactly, extremes and means within a share of the range."""
    compared, padding = 0, 0
    for tensor in made["tensors"]:
        want = wanted.get(tensor["name"])
        if not want or tensor["name"] in shared or "nan" not in tensor or not want["count"]:
            continue
        counted = tensor["count"] - tensor.get("excluded", 0)
        assert counted == want["count"], (title, tensor["name"], counted, tensor["count"], want["count"])
        assert tensor.get("padding", 0) == tensor.get("excluded", 0)
        span = want["max"] - want["min"] or abs(want["max"]) or 1
        for which in ("min", "max"):
            assert abs(tensor[which] - want[which]) <= TOLERANCE * span, (title, tensor["name"], which, tensor[which], want[which])
        compared += 1
        padding += tensor.get("padding", 0) > 0
    print(f"  {title}: {compared} values, padding left out of {padding}", flush=True)
    assert padding > 0.6 * compared, "little was left out"
    return compared


def test_encoders_of_every_kind_of_mask(path):
    for mask in DTYPES:
        for merged in (False, True):
            model = encoder(mask, merged)
            made = measured(path, model, PROMPTS, False)
            compare(f"encoder, mask {DTYPES[mask]}{', merged axes' if merged else ''}", made, one_by_one(model, PROMPTS))
            assert made["settings"]["exclude-padding"] == "attention_mask"


def test_encoder_with_the_fusions_of_onnx_runtime(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path / "fused.onnx")
    onnxruntime.InferenceSession(encoder().SerializeToString(), options, providers=["CPUExecutionProvider"])
    model = onnx.load(path / "fused.onnx")
    made = measured(path, model, PROMPTS, False)
    wanted = one_by_one(encoder(), PROMPTS)
    assert compare("fused encoder", made, wanted) > 40, [node.op_type for node in model.graph.node]


def test_decoders_padded_on_either_side(path):
    for style in ("optimum", "dynamo", "op23", "plain"):
        model = decoder(style)
        wanted = one_by_one(model, PROMPTS)
        for left in (False, True):
            compare(f"{style}, padded {'left' if left else 'right'}", measured(path, model, PROMPTS, left), wanted)


def test_fused_decoder(path):
    """GroupQueryAttention takes prompts that are padded on the right; the caches it makes keep all."""
    model = decoder("genai")
    wanted = one_by_one(model, PROMPTS)
    made = measured(path, model, PROMPTS, False)
    compare("genai", made, wanted, SHARED | {output.name for output in model.graph.output if output.name != "logits"})


def test_any_way_of_running_gives_one_profile(path):
    model = encoder()
    prompts = PROMPTS * 4
    whole = measured(path, model, prompts, False)
    made = []
    for more in (["--threads", 1], ["--threads", 3], ["--checkpoint", path / "c", "--every", "0.0001s"]):
        made.append(measured(path, model, prompts, False, "--batch", 4, *more))
    assert made[0] == made[1] == made[2]
    words = ["profile", path / "m.onnx", "--data", path / "b.npz", "--exclude-padding", "attention_mask", "--batch", 4, "--quiet", "-o"]
    for i in (1, 2):
        tidemark(*words, path / f"{i}.json", "--shard", f"{i}/2")
    tidemark("merge", path / "1.json", path / "2.json", "-o", path / "p.json")
    assert json.loads((path / "p.json").read_text()) == made[0]
    by_name = {tensor["name"]: tensor for tensor in whole["tensors"]}
    for tensor in made[0]["tensors"]:  # batches do not matter but for rounding, nor does what they share
        if tensor["name"] not in SHARED and "nan" in tensor and tensor["kind"] != "weight":
            other = by_name[tensor["name"]]
            assert tensor["count"] == other["count"] and tensor.get("padding") == other.get("padding"), tensor["name"]


def test_a_prompt_in_a_fixed_length(path):
    """Batches of one: what depends on positions alone is of the prompt, too."""
    model = encoder()
    wanted = one_by_one(model, PROMPTS)
    made = measured(path, model, PROMPTS, False, "--batch", 1)
    compare("batches of one", made, wanted, SHARED)


def test_nothing_is_left_out_without_padding(path):
    model = encoder()
    prompts = [prompt * 4 for prompt in ([1, 2], [3, 4])]
    made = measured(path, model, prompts, False)
    plain = profile(path / "m.onnx", path / "b.npz", path / "p.json", "--batch", len(prompts))
    for ours, other in zip(made["tensors"], plain["tensors"], strict=True):
        assert "excluded" not in ours and [ours.get(k) for k in ("count", "min", "max", "sum")] == [other.get(k) for k in ("count", "min", "max", "sum")]


def test_nan_in_padding_does_not_stop_a_run(path):
    model = encoder()
    words = next(tensor for tensor in model.graph.initializer if tensor.name == "words")
    array = onnx.numpy_helper.to_array(words).copy()
    array[0] = np.nan  # the token of padding
    words.CopyFrom(onnx.numpy_helper.from_array(array, "words"))
    prompts = [[token or 5 for token in prompt] for prompt in PROMPTS]
    more = ["--nan", "fail", "--observe", "embedded"]
    made = measured(path, model, prompts, False, *more)
    assert next(t for t in made["tensors"] if t["name"] == "embedded")["nan"] == 0
    execute("profile", path / "m.onnx", "--data", path / "b.npz", "--batch", len(prompts), *more, "-o", path / "p.json", status=1)


def test_decoding_after_padded_prompts(path):
    model = decoder()
    made = measured(path, model, PROMPTS, True, "--generate", 3)
    by_name = {tensor["name"]: tensor for tensor in made["tensors"]}
    ids, mask = padded_prompts(PROMPTS, True)
    width = by_name["last"]["count"] // (ids.size + 3 * len(PROMPTS))
    assert by_name["last"]["padding"] == (mask == 0).sum() * width
    rows = {name: by_name[name]["padding"] for name in ("present.0.key", "l1_shares")}
    assert rows["present.0.key"] == 4 * (mask == 0).sum() * width, rows


def test_values_that_are_left_whole_are_counted(path):
    model = decoder()
    measured(path, model, PROMPTS, True)
    words = ["profile", path / "m.onnx", "--data", path / "b.npz", "--dim", "past=0", "--batch", len(PROMPTS), "-o", path / "p.json"]
    said = execute(*words, "--exclude-padding", "attention_mask").stderr
    assert "values keep all of their elements: which of them are of padding is not known" in said, said
    for name, why in (("attention_maks", "no input 'attention_maks', did you mean 'attention_mask'"), ("past_key_values.0.key", "a mask of padding is")):
        said = execute(*words, "--exclude-padding", name, status=2).stderr
        assert why.split(",")[0] in said and said.count("\n") == 1, said


def test_what_was_left_out_as_padding_may_be_quantized(path):
    model = encoder()
    measured(path, model, PROMPTS, False)
    tidemark("calibrate", path / "b.json", "-o", path / "e.json")
    found = {entry["name"] for entry in json.loads((path / "e.json").read_text())["encodings"]}
    assert {"l0_norm1", "l1_gelu"} <= found, sorted(found)


main()
