# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding (`--generate`) of decoders in the forms of several exporters: tokens and ranges beside a loop around ONNX Runtime."""
import json
import signal
import subprocess
import sys
import time

# First: it leaves the test out where packages are missing.
from oracle import PROGRAM, SHARED, execute, main, np, onnx, onnxruntime, profile, refused, skip, subset, tidemark
from test_ranges import Comparison, compare_all, every_value, figures

from decoders import CACHES, HEAD, HEADS, PRESENT, decoder, next_feed, padded_prompts, prompt_feed, static_decoder

PROMPTS = [[1, 5, 7], [2], [3, 3, 9, 0, 8, 11, 4], [6, 10], [3, 3, 9, 1, 8, 11, 4]]
STEPS = 6
STYLES = ["optimum", "dynamo", "op23", "genai", "plain"]


def write(path, style="optimum", prompts=PROMPTS, positions=64):
    model = decoder(style, positions=positions)
    onnx.save(model, path / "m.onnx")
    (path / "p.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    return model


def feeds_of(model, feed, run, steps=STEPS, stop=(), more=lambda values: {}):
    """The feeds of one prompt (or batch), as a loop around ONNX Runtime makes them, with the values that each gives. more: of other inputs."""
    names = {output.name for output in model.graph.output}
    logits = "logits" if "logits" in names else "scores"
    outputs = [PRESENT["dynamo" if logits == "scores" else "optimum"](i) for i in range(len(CACHES))]
    caches = dict(zip(CACHES, outputs)) if len(names) > 1 else {}
    for step in range(steps + 1):
        values = run(feed)
        yield feed, values
        mask = {} if "attention_mask" in feed else {"attention_mask": np.ones(feed["input_ids"].shape, np.int64)}
        made = next_feed({**feed, **mask}, values[logits], {name: values[output] for name, output in caches.items()})
        feed = feed | {name: array for name, array in made.items() if name in feed} | more(values)
        if (np.isin(feed["input_ids"][:, -1], stop)).all():
            return


def runner_of(model):
    try:
        return every_value(model)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as why:
        skip(f"ONNX Runtime {onnxruntime.__version__} does not run it: {str(why)[:120]}")


def printed_tokens(path, *words):
    """The tokens that each prompt was fed with, step by step, as an observer prints them."""
    said = execute("profile", path / "m.onnx", "--threads", 1, "--kind", "print", "--observe", "input_ids", "-o", path / "none.json",
                   *words).stderr
    tokens = {}
    for line in said.splitlines():
        if line.startswith("sample "):
            head, numbers = line.split("int64[")
            tokens.setdefault(int(head.split()[1]), []).append([int(word) for word in numbers.split(":")[1].split() if word != "..."])
    return tokens


def shown(feeds):
    """The same of a loop; an observer prints eight elements."""
    return [feed["input_ids"].ravel().tolist()[:8] for feed, _ in feeds]


def unclear(words, text):
    said = execute(*words, status=2).stderr
    assert text in said and said.count("\n") == 1, said


def check_values(title, made, feeds, samples):
    """Ranges, counts, runs and samples of every float value."""
    seen = {}
    for _, values in feeds:
        for name, array in values.items():
            seen.setdefault(name, []).append(array)
    compare_all(Comparison(title, samples), made, {name: figures(arrays) for name, arrays in seen.items()})
    for tensor in made["tensors"]:
        if tensor["kind"] in ("activation", "output", "input") and tensor["name"] in seen:
            got = tensor["samples"], tensor["updates"]
            assert got == (samples, len(seen[tensor["name"]])), (tensor["name"], got)
    assert made["ledger"]["run"] == samples, made["ledger"]


def each_style(test):
    return {f"test_{test.__name__}_{style}": lambda path, style=style: test(path, style) for style in subset(STYLES)}


def tokens_and_ranges(path, style):
    model = write(path, style)
    run = runner_of(model)
    loops = [list(feeds_of(model, prompt_feed(model, prompt), run)) for prompt in PROMPTS]
    got = printed_tokens(path, "--data", path / "p.jsonl", "--generate", STEPS)
    wanted = dict(enumerate(map(shown, loops)))
    assert got == wanted, (got, wanted)
    made = profile(path / "m.onnx", path / "p.jsonl", path / "p.json", "--generate", STEPS)
    check_values(style, made, [step for loop in loops for step in loop], len(PROMPTS))
    assert made["settings"]["generate"] == str(STEPS), made["settings"]


def threads_shards_and_checkpoints_give_one_profile(path, style):
    write(path, style, PROMPTS * 2)
    words = ["profile", path / "m.onnx", "--data", path / "p.jsonl", "--generate", STEPS, "--quiet", "-o"]
    made = []
    for more in (["--threads", 1], ["--threads", 2], ["--threads", 4], ["--checkpoint", path / "c", "--every", "0.0001s"]):
        tidemark(*words, path / "p.json", *more)
        made.append((path / "p.json").read_bytes())
    for i in range(1, 4):
        tidemark(*words, path / f"{i}.json", "--shard", f"{i}/3")
    tidemark("merge", *(path / f"{i}.json" for i in range(1, 4)), "-o", path / "p.json")
    made.append((path / "p.json").read_bytes())
    assert all(one == made[0] for one in made), [len(one) for one in made]


def test_tokens_end_a_prompt(path):
    model = write(path)
    run = runner_of(model)
    loop = list(feeds_of(model, prompt_feed(model, PROMPTS[2]), run))
    ends = [int(loop[3][0]["input_ids"][0, 0])]
    loops = [list(feeds_of(model, prompt_feed(model, prompt), run, stop=ends)) for prompt in PROMPTS]
    words = ["--generate", STEPS, "--eos", *ends, "--eos", 999]
    got = printed_tokens(path, "--data", path / "p.jsonl", *words)
    assert got == dict(enumerate(map(shown, loops)))
    assert len(got[2]) <= 3
    made = profile(path / "m.onnx", path / "p.jsonl", path / "p.json", *words)
    check_values("with an end", made, [step for loop in loops for step in loop], len(PROMPTS))
    assert made["settings"]["eos"] == [str(ends[0]), "999"], made["settings"]


def test_batches_of_padded_prompts(path):
    model = write(path)
    run = runner_of(model)
    single = printed_tokens(path, "--data", path / "p.jsonl", "--generate", STEPS)
    for left in (True, False):
        ids, mask = padded_prompts(PROMPTS, left)
        feed = prompt_feed(model, ids, mask)
        np.savez(path / "b.npz", **{name: array for name, array in feed.items() if array.size})
        words = ["--generate", STEPS, "--batch", len(PROMPTS), "--dim", "past=0"]
        loop = list(feeds_of(model, feed, run))
        made = profile(path / "m.onnx", path / "b.npz", path / "b.json", *words)
        check_values(f"padded {'left' if left else 'right'}", made, loop, len(PROMPTS))
        got = printed_tokens(path, "--data", path / "b.npz", *words)
        assert got[0] == shown(loop)
        # A prompt's tokens do not depend on its neighbours.
        assert [list(row) for row in zip(*got[0][1:])] == [[t[0] for t in single[i][1:]] for i in range(len(PROMPTS))]


def test_pairs_can_be_named(path):
    model = write(path)
    wanted = profile(path / "m.onnx", path / "p.jsonl", path / "p.json", "--generate", STEPS)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [{"logits": "x1", "input_ids": "x2"}.get(name, name) for name in names]
    model.graph.output[0].name, model.graph.input[0].name = "x1", "x2"
    model.graph.output.append(onnx.helper.make_tensor_value_info("embedded", onnx.TensorProto.FLOAT, None))
    onnx.save(model, path / "m.onnx")
    words = ["profile", path / "m.onnx", "--data", path / "named.jsonl", "--generate", STEPS, "-o", path / "n.json"]
    (path / "named.jsonl").write_text("".join(json.dumps(
        {"x2": p, "attention_mask": [1] * len(p), "position_ids": list(range(len(p)))}) + "\n" for p in PROMPTS))
    unclear(words, "no input is known to take tokens; --feedback LOGITS=INPUT names it")
    tidemark(*words, "--feedback", "x1=x2")
    named = json.loads((path / "n.json").read_text())
    ranges = [sorted((t["min"], t["max"]) for t in made["tensors"] if t.get("level") == "histogram") for made in (wanted, named)]
    assert ranges[0] == ranges[1]
    assert named["settings"]["feedback"] == "x1=x2", named["settings"]


def test_prompts_of_a_named_input_fill_the_others(path):
    write(path)
    wanted = profile(path / "m.onnx", path / "p.jsonl", path / "p.json", "--generate", STEPS)
    masks = path / "masks.jsonl"
    masks.write_text("".join(json.dumps([1] * len(prompt)) + "\n" for prompt in PROMPTS))
    ids, mask = f"input_ids={path / 'p.jsonl'}", f"attention_mask={masks}"
    for data in ([ids], [ids, mask], [mask, ids]):
        assert profile(path / "m.onnx", data, path / "n.json", "--generate", STEPS)["tensors"] == wanted["tensors"], data


def test_caches_of_an_encoder_stay(path):
    model = decoder()
    feed = prompt_feed(model, PROMPTS[0]) | {"past_key_cross_0": np.full((1, 1, 1), 3, "f4")}
    graph, last = model.graph, model.graph.node[-1]
    assert last.output[0] == "logits"
    last.output[0] = "apart"
    graph.node.append(onnx.helper.make_node("Add", ["apart", "past_key_cross_0"], ["logits"]))
    graph.input.append(onnx.helper.make_tensor_value_info("past_key_cross_0", onnx.TensorProto.FLOAT, ["batch", 1, 1]))
    onnx.save(model, path / "m.onnx")
    np.savez(path / "b.npz", **{name: array for name, array in feed.items() if array.size})
    made = profile(path / "m.onnx", path / "b.npz", path / "b.json", "--generate", STEPS, "--dim", "past=0")
    check_values("with an encoder's cache", made, list(feeds_of(model, feed, runner_of(model))), 1)


def merged(model):
    """With keys of an encoder that are made where `use_cache_branch` is false, and come without elements where it is true, as Optimum merges
    two decoders."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    graph, last = model.graph, model.graph.node[-1]
    assert last.output[0] == "logits"
    last.output[0] = "apart"
    names = ["kept", "made"]
    outputs = [helper.make_tensor_value_info(name, floats, ["batch", "read", 1]) for name in names]
    first = helper.make_graph([helper.make_node("Add", ["encoder_hidden_states"] * 2, ["kept"]), helper.make_node("Identity", ["kept"], ["made"])],
                              "first", [], outputs)
    later = helper.make_graph([helper.make_node("Identity", ["past_key_values.0.encoder.key"], ["kept"]),
                               helper.make_node("Constant", [], ["made"], value=helper.make_tensor("none", floats, [0, 1, 1], []))],
                              "later", [], [outputs[0], helper.make_tensor_value_info("made", floats, [0, 1, 1])])
    graph.node.extend([helper.make_node("If", ["use_cache_branch"], ["all_kept", "present.0.encoder.key"], then_branch=later, else_branch=first),
                       helper.make_node("ReduceMax", ["all_kept"], ["largest"], axes=[1], keepdims=1),
                       helper.make_node("Add", ["apart", "largest"], ["logits"])])
    graph.input.extend([helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1]),
                        *(helper.make_tensor_value_info(name, floats, ["batch", "read", 1])
                          for name in ("encoder_hidden_states", "past_key_values.0.encoder.key"))])
    graph.output.append(helper.make_tensor_value_info("present.0.encoder.key", floats, ["batch", "read", 1]))
    return model


def test_merged_decoders(path):
    plain = decoder()
    feeds = [prompt_feed(plain, prompt) for prompt in PROMPTS]
    model = merged(plain)
    onnx.save(model, path / "m.onnx")
    read = [np.random.default_rng(i).standard_normal((1, 3 + i, 1)).astype("f4") for i in range(len(PROMPTS))]
    (path / "p.jsonl").write_text("".join(json.dumps({"input_ids": prompt, "encoder_hidden_states": states.tolist()}) + "\n"
                                          for prompt, states in zip(PROMPTS, read)))
    made = profile(path / "m.onnx", path / "p.jsonl", path / "p.json", "--generate", STEPS)
    run = runner_of(model)

    def more(values):
        array = values["present.0.encoder.key"]
        return {"use_cache_branch": np.array([True]), **({"past_key_values.0.encoder.key": array} if array.size else {})}

    loop = [pair for feed, states in zip(feeds, read)
            for pair in feeds_of(model, feed | {"use_cache_branch": np.array([False]), "encoder_hidden_states": states,
                                                "past_key_values.0.encoder.key": np.zeros((1, 0, 1), "f4")}, run, more=more)]
    check_values("merged", made, loop, len(PROMPTS))
    graph = onnx.load(path / "m.onnx").graph
    kept = [value for value in graph.input if value.name != "use_cache_branch"]
    del graph.input[:], graph.node[-3:]
    graph.input.extend(kept)
    graph.node.extend([onnx.helper.make_node("ReduceMax", ["past_key_values.0.encoder.key"], ["largest"], axes=[1], keepdims=1),
                       onnx.helper.make_node("Add", ["apart", "largest"], ["logits"])])
    del graph.output[-1]
    model.graph.CopyFrom(graph)
    onnx.save(model, path / "m.onnx")
    refused(["profile", path / "m.onnx", "--data", path / "p.jsonl", "-o", path / "no.json"],
            "an encoder makes 'past_key_values.0.encoder.key'; give it data of its own")


def test_the_plan_counts_the_steps(path):
    """Each has a shape of its own, and fills statistics: 37 MiB were measured with 16 steps, and 27 with none."""
    write(path, prompts=[[1] * n for n in range(1, 14)])

    def planned(steps):
        words = ["profile", path / "m.onnx", "--data", path / "p.jsonl", "--generate", steps, "--threads", 2, "--plan"]
        return float(execute(*words).stdout.splitlines()[-1].split()[-2])
    none, some, many = (planned(steps) for steps in (0, 4, 16))
    # more steps take more bins, up to those that the values use; what the process holds already varies by tenths
    assert none + 2 < some < many + 1 and none + 4 < many < none + 14, (none, some, many)


def test_what_is_not_clear_is_refused(path):
    model = write(path)
    words = ["profile", path / "m.onnx", "--data", path / "p.jsonl", "-o", path / "no.json", "--generate", 2]
    unclear([*words, "--reset", "never", "--feedback", "logits=input_ids"], "--reset is for sequences of samples")
    unclear([*words, "--feedback", "present.0.key=past_key_values.0.key", "--feedback", "present.0.value=past_key_values.0.key"],
            "input 'past_key_values.0.key' is fed back already")
    execute(*words[:-2], "--eos", 3, status=2)
    execute(*words, "--eos", "x", status=2)
    del model.graph.output[1]
    onnx.save(model, path / "m.onnx")
    unclear(words, "no output is known to be the next 'past_key_values.0.key'; --feedback OUT=past_key_values.0.key")
    model = decoder("plain")
    model.graph.output[0].name = model.graph.node[-1].output[0] = "x1"
    model.graph.output.append(onnx.helper.make_tensor_value_info("embedded", onnx.TensorProto.FLOAT, None))
    onnx.save(model, path / "m.onnx")
    unclear(words, "'x1' or 'embedded' may be the logits; --feedback OUT=input_ids names them")
    tidemark(*words, "--feedback", "x1=input_ids")
    refused([*words, "--feedback", "embedded=input_ids"], "Gather")
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("tokens_shape", onnx.TensorProto.INT64, [2]))
    onnx.save(model, path / "m.onnx")
    unclear(words, "no output is known to be the logits")


def test_lengths_of_tokens_grow(path):
    """A decoder that takes lengths and places as inputs: in a line they follow from its tokens, and then grow."""
    model = decoder("genai")
    keep = [node for node in model.graph.node if node.output[0] not in ("seen", "seen_less", "lengths", "total_long", "total_length", "mask_shape")]
    for node in keep:
        node.input[:] = [{"lengths": "seqlens_k", "total_length": "total_sequence_length"}.get(name, name) for name in node.input]
    wanted = printed_tokens_of(path, "genai")
    del model.graph.node[:]
    model.graph.node.extend(keep)
    inputs = [value for value in model.graph.input if value.name != "attention_mask"]
    del model.graph.input[:]
    model.graph.input.extend([*inputs, onnx.helper.make_tensor_value_info("seqlens_k", onnx.TensorProto.INT32, ["batch"]),
                              onnx.helper.make_tensor_value_info("total_sequence_length", onnx.TensorProto.INT32, [])])
    onnx.save(model, path / "m.onnx")
    assert printed_tokens(path, "--data", path / "p.jsonl", "--generate", STEPS) == wanted


def test_small_llamas(path):
    """Those of the shared generator, which takes positions from the caches' lengths."""
    program = SHARED / "bench" / "big" / "llama.py"
    if not program.is_file():
        skip(f"{program} is not here")
    for style in ("decomposed", "op23", "genai"):
        subprocess.run([sys.executable, program, path / style, "--size", "tiny", "--style", style], check=True, stdout=subprocess.DEVNULL)
        (path / "p.jsonl").write_text("".join(f"{prompt}\n" for prompt in PROMPTS))
        model = onnx.load(path / style / "model.onnx")
        run = runner_of(model)
        loops = [list(feeds_of(model, llama_feed(model, prompt), run)) for prompt in PROMPTS]
        made = profile(path / style / "model.onnx", path / "p.jsonl", path / "p.json", "--generate", STEPS)
        check_values(style, made, [step for loop in loops for step in loop], len(PROMPTS))


def llama_feed(model, prompt):
    feed = {"input_ids": np.array([prompt]), "attention_mask": np.ones((1, len(prompt)), np.int64)}
    for value in model.graph.input:
        if value.name.startswith("past"):
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            feed[value.name] = np.zeros([1, shape[1], 0, shape[3]], "f4")
    return {value.name: feed[value.name] for value in model.graph.input}


def printed_tokens_of(path, style):
    write(path, style)
    return printed_tokens(path, "--data", path / "p.jsonl", "--generate", STEPS)


def test_caches_of_a_fixed_size(path):
    """TensorScatter writes to them, and lengths say how far: the tokens are those of caches that grow."""
    prompts, places = [[1, 5, 7], [2, 9, 11]], 24
    write(path, "op23", prompts)
    wanted = printed_tokens(path, "--data", path / "p.jsonl", "--generate", STEPS)
    onnx.save(static_decoder(places), path / "m.onnx")
    ids = np.array(prompts)
    caches = {name: np.zeros((2, HEADS, places, HEAD), "f4") for name in CACHES}
    np.savez(path / "b.npz", input_ids=ids, position_ids=np.arange(3)[None].repeat(2, 0), write_indices=np.zeros(2, np.int64),
             nonpad_kv_seqlen=np.full(2, 3), **caches)
    assert printed_tokens(path, "--data", path / "b.npz", "--generate", STEPS) == wanted


def interrupted(words, after):
    """The exit status, or that it ended before; and seconds from the signal to the end."""
    process = subprocess.Popen([PROGRAM, *map(str, words)], stderr=subprocess.PIPE, text=True)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    said = process.communicate(timeout=60)[1]
    assert process.returncode in (0, -signal.SIGINT, 130), (process.returncode, said)
    return process.returncode, time.monotonic() - begin


def test_a_long_prompt_is_interrupted_between_steps(path):
    write(path, prompts=[[1, 2]] * 2, positions=20000)
    words = ["profile", path / "m.onnx", "--data", path / "p.jsonl", "-o", path / "p.json", "--generate", 19000, "--threads", 1]
    status, seconds = interrupted(words, 0.5)
    assert status and seconds < 5 and not (path / "p.json").exists(), (status, seconds)


def test_interrupted_runs_resume_to_the_same_profile(path):
    write(path, prompts=PROMPTS * 8)
    words = ["profile", path / "m.onnx", "--data", path / "p.jsonl", "--quiet", "--generate", STEPS]
    begin = time.monotonic()
    tidemark(*words, "-o", path / "whole.json")
    whole, times, resumed = time.monotonic() - begin, 0, 0
    words += ["-o", path / "p.json", "--checkpoint", path / "c", "--every", "10s"]
    while interrupted(words, whole * (0.2 + 0.1 * times))[0] and times < 20:
        resumed += (path / "c").exists()
        times += 1
    if not (path / "p.json").exists():
        tidemark(*words)
    assert (path / "p.json").read_bytes() == (path / "whole.json").read_bytes()
    return f"interrupted {times} times, resumed {resumed} times"


main({**{name: test for name, test in globals().copy().items() if name.startswith("test_")}, **each_style(tokens_and_ranges),
      **each_style(threads_shards_and_checkpoints_give_one_profile)})
