# SPDX-License-Identifier: Apache-2.0
"""Models, data and labels in every form that the functions take: the results are the same, whichever form it is."""
import collections
import itertools
import json
import os
import tempfile

from package import FOLDER, SOURCE, main, raises, skip

try:
    import numpy as np
    import tidemark
except ImportError as missing:  # without NumPy, or with an extension for another Python
    skip(missing)

DIGITS, PICTURES, LABELS = (SOURCE / "bundle" / name for name in ("digits.onnx", "digits.npy", "digits-labels.npy"))
DATA, RIGHT = np.load(PICTURES)[:48], np.load(LABELS)[:48]  # whole numbers: equal in half types
FILE = FOLDER / "data.npy"
np.save(FILE, DATA)
PROFILE = tidemark.profile(DIGITS, FILE)
ENCODINGS = PROFILE.calibrate()


class Proto:
    """As an onnx.ModelProto."""

    def SerializeToString(self):
        return DIGITS.read_bytes()


class Reader:
    """As ONNX Runtime's CalibrationDataReader."""

    def __init__(self):
        self.items = iter(DATA)

    def get_next(self):
        item = next(self.items, None)
        return None if item is None else {"image": item[None]}


class Dataset:
    """As PyTorch's: found by number only."""

    def __getitem__(self, i):
        return DATA[i], RIGHT[i]


class Foreign:
    """An array of another package."""

    def __array__(self, dtype=None, copy=None):
        return DATA


class Encoding(collections.UserDict):
    """As what a tokenizer of transformers gives."""


class Exchanged:
    """An array that can be had by DLPack only."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **more):
        return self.array.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Frame(dict):
    """A DataFrame of pandas or polars."""
    columns = property(lambda self: list(self))

    def to_numpy(self):
        return np.column_stack(list(self.values()))

    def __array__(self, dtype=None, copy=None):
        return self.to_numpy()


FRAMES = [Frame]
try:
    import pandas
    FRAMES.append(pandas.DataFrame)
except ImportError:
    pass

MODELS = {"text": str(DIGITS), "path": DIGITS, "bytes": DIGITS.read_bytes(), "proto": Proto()}
# Each gives the data anew: some can be read once only.
FORMS = {
    "path": lambda: FILE, "paths": lambda: [str(FILE)], "array": lambda: DATA, "mapping": lambda: {"image": DATA},
    "mapping of lists": lambda: {"image": list(DATA)}, "list": lambda: list(DATA), "batches": lambda: [DATA[:32], DATA[32:]],
    "tuples": lambda: [(x,) for x in DATA], "mappings": lambda: [{"image": x} for x in DATA], "generator": lambda: (x for x in DATA),
    "pairs with labels": lambda: ([x, y] for x, y in zip(DATA, RIGHT)), "reader": Reader, "dataset": Dataset, "of another package": Foreign,
    "by DLPack": lambda: Exchanged(DATA), "with names of files": lambda: {"image": DATA, "file": ["x.png"] * 48},
    "frame": lambda: FRAMES[-1]({"image": list(DATA), "name": ["ab", "c"] * 24}), "numbers in lists": DATA.tolist, "one batch in lists": lambda: [DATA.tolist()],
}
ARRAYS = {
    "float64": DATA.astype(np.float64), "float16": DATA.astype(np.float16), "big-endian": DATA.astype(">f4"),
    "big-endian float64": DATA.astype(">f8"), "Fortran's order": np.asfortranarray(DATA), "strided": np.repeat(DATA, 2, axis=0)[::2],
    "not aligned": np.frombuffer(b"." + DATA.tobytes(), np.uint8)[1:].view(np.float32).reshape(DATA.shape),
    "mapped": np.load(FILE, mmap_mode="r"),
}
try:
    import ml_dtypes
    ARRAYS["bfloat16"] = DATA.astype(ml_dtypes.bfloat16)
except ImportError:
    pass


def figures(profile):
    return [tensor.to_dict() for tensor in profile.tensors]


def test_profiles_are_the_same():
    for name, model in MODELS.items():
        assert figures(tidemark.profile(model, DATA)) == figures(PROFILE), name
    for name, form in FORMS.items():
        assert figures(tidemark.profile(DIGITS, form())) == figures(PROFILE), name
    for name, array in ARRAYS.items():
        for data in (array, {"image": array}, list(array)):
            assert figures(tidemark.profile(DIGITS, data)) == figures(PROFILE), name


def test_data_that_are_read_again_are_the_same(folder):
    def ranked(data):
        return tidemark.rank(DIGITS, ENCODINGS, data, most=40, limit=4).values  # more than one run has

    def searched(data):
        return tidemark.search(DIGITS, ENCODINGS, data, profile=PROFILE, budget=3, limit=8).after

    def quantized(data):
        made = tidemark.quantize(DIGITS, data, folder / "q.onnx")
        return made.sqnr, made.held_out, (folder / "q.onnx").read_bytes()

    def limited(data):
        return figures(tidemark.profile(DIGITS, data, memory_limit=1 << 30))

    def sharded(data):
        return figures(tidemark.profile(DIGITS, data, shard=[2, 2]))

    def streamed(data):
        return figures(tidemark.profile(DIGITS, data, stream_layers=True))

    def planned(data):
        return tidemark.plan_memory(DIGITS, data)["batch"]

    def linked(data):
        return tidemark.link(PROFILE, DIGITS, original=DIGITS, data=data).fates

    def measured(data):
        return [f.what for f in tidemark.bench(DIGITS, data, repeat=1, seconds=0.001, figures="bare")]
    wanted = ranked(FILE)
    for name, form in FORMS.items():
        assert ranked(form()) == wanted, name
    for function in (searched, quantized, limited, sharded, streamed, planned, linked, measured):
        wanted = function(FILE)
        for name in ("array", "mapping", "pairs with labels"):
            assert function(FORMS[name]()) == wanted, (function.__name__, name)
    for name, array in ARRAYS.items():
        assert ranked(array) == ranked({"image": array}) == ranked(list(array)) == ranked(FILE), name
    raises(tidemark.Error, "sample 1", ranked, [DATA[0], DATA[0][:, :4]])
    raises(ValueError, "the data have nothing for the inputs image", ranked, [])
    raises(ValueError, "the data have nothing for the inputs image", ranked, [{"other": DATA}])


def test_frames_have_inputs_or_features_as_columns(folder):
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        skip(error)
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("a", ["N", 1]), ("b", ["N", 1]), ("c", ["N"]))]
    columns = helper.make_model(helper.make_graph([
        helper.make_node("Reshape", ["c", "shape"], ["d"], name="reshape"), helper.make_node("Sum", ["a", "b", "d"], ["y"], name="sum")],
        "columns", inputs, outputs, [helper.make_tensor("shape", TensorProto.INT64, [2], [-1, 1])]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    wide = helper.make_model(helper.make_graph([helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="sum", keepdims=1)], "wide", [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])], outputs, [helper.make_tensor("axes", TensorProto.INT64, [1], [1])]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    table = np.arange(60).reshape(20, 3) / 8
    arrays = {"a": table[:, :1], "b": table[:, 1:2], "c": table[:, 2]}
    for frame in FRAMES:
        named = frame({**{name: array.reshape(20) for name, array in arrays.items()}, "text": ["ab", "c"] * 10, "label": np.arange(20)})
        mixed = frame({"a": table[:, 0] > 3, "b": np.arange(20), "c": table[:, 2]})  # pandas takes them for objects
        for model, data, wanted in ((columns, named, arrays), (wide, frame({"a": table[:, 0], "b": table[:, 1], "c": table[:, 2]}), table),
                                    (wide, mixed, np.column_stack([table[:, 0] > 3, np.arange(20), table[:, 2]]))):
            for given in (data, [data], iter([data])):
                assert figures(tidemark.profile(model, given)) == figures(tidemark.profile(model, wanted))
            assert tidemark.quantize(model, data, folder / "q.onnx").sqnr == tidemark.quantize(model, wanted, folder / "q.onnx").sqnr
        raises(TypeError, "column 'b' of the DataFrame is not of numbers", tidemark.profile, wide, frame({"q": [1.0], "b": ["x"], "c": [2.0]}))


def test_samples_may_differ_in_shape(folder):
    """Where they are read more than once, too; what follows from tokens may be left out there, as in a file of prompts."""
    try:
        from decoders import decoder, prompt_feed
    except ImportError as error:
        skip(error)
    model, prompts = decoder(), [[1, 5, 7], [2], [6, 10, 3, 3]] * 4
    file = folder / "prompts.jsonl"
    file.write_text("".join(f"{prompt}\n" for prompt in prompts))
    profile = tidemark.profile(model, file)
    encodings = profile.calibrate(model=model)
    whole = [prompt_feed(model, prompt) for prompt in prompts]
    assert figures(tidemark.profile(model, iter(whole))) == figures(profile)
    for items in (whole, [{"input_ids": np.array([prompt])} for prompt in prompts], [{"input_ids": np.array(prompt)} for prompt in prompts]):
        assert tidemark.rank(model, encodings, iter(items)).values == tidemark.rank(model, encodings, file).values
        assert tidemark.quantize(model, items, folder / "q.onnx").sqnr == tidemark.quantize(model, file, folder / "q.onnx").sqnr
    same = [{"input_ids": np.array([[1, 5, 7], [2, 3, 4]])}] * 4
    assert tidemark.quantize(model, same, folder / "q.onnx").simulation.samples == 2
    assert tidemark.profile(model, same).run_report.samples == 8


def test_tokens_may_be_given_as_tokenizers_give_them(folder):
    """To every function: without what follows from them, of one length each, padded, as int32, with more than the model takes."""
    try:
        from decoders import decoder, encoder
    except ImportError as error:
        skip(error)
    model, prompts = decoder(), [[1, 5, 7], [2], [6, 10, 3, 3]] * 4
    file, masks = folder / "prompts.jsonl", [[1] * len(prompt) for prompt in prompts]
    file.write_text("".join(f"{prompt}\n" for prompt in prompts))
    profile = tidemark.profile(model, file)
    encodings = profile.calibrate(model=model)
    functions = {"profile": lambda data: figures(tidemark.profile(model, data)),
                 "simulate": lambda data: tidemark.simulate(model, encodings, data).values,
                 "rank": lambda data: tidemark.rank(model, encodings, data, most=3).values,
                 "plan_memory": lambda data: tidemark.plan_memory(model, data)["worker"],
                 "step_costs": lambda data: sorted({s.name for s in tidemark.step_costs(model, data)}),
                 "quantize": lambda data: tidemark.quantize(model, data, folder / "q.onnx").sqnr}
    forms = [lambda: prompts, lambda: [np.array(p, np.int32) for p in prompts], lambda: ({"input_ids": p} for p in prompts),
             lambda: {"input_ids": prompts}, lambda: Encoding(input_ids=prompts, attention_mask=masks),
             lambda: [Encoding(input_ids=p, attention_mask=m, labels=3, text="abc") for p, m in zip(prompts, masks)],
             lambda: [{"input_ids": Exchanged(np.array([p]))} for p in prompts]]
    for name, function in functions.items():
        wanted = function(file)
        for i, form in enumerate(forms):
            assert function(form()) == wanted, (name, i)
    padded = np.array([p + [0] * (4 - len(p)) for p in prompts])
    mask = np.array([m + [0] * (4 - len(m)) for m in masks])
    kinds = [{"input_ids": i, "attention_mask": m} for i, m in ((padded, mask), (padded.tolist(), mask.tolist()), (padded.astype("i4"), mask.astype("i4")))]
    for name, function in functions.items():
        assert function(kinds[0]) == function(kinds[1]) == function(kinds[2]) == function([kinds[0]]), name
    for data in (padded, kinds[0]):
        tidemark.run(model, data, folder / "out.npz")
        assert np.load(folder / "out.npz")["logits"].shape[0] == 12
    reads = encoder()
    tokens = {"input_ids": padded.astype("i4"), "attention_mask": mask.astype("i4"), "token_type_ids": np.zeros_like(mask, "i4")}
    np.savez(folder / "tokens.npz", **tokens)
    wanted = figures(tidemark.profile(reads, {name: array.astype(np.int64) for name, array in tokens.items()}))
    assert figures(tidemark.profile(reads, tokens)) == figures(tidemark.profile(reads, folder / "tokens.npz")) == wanted
    raises(ValueError, "numbers of samples: {'input_ids': 12, 'attention_mask': 1}", tidemark.profile, model, {"input_ids": prompts, "attention_mask": [[1]]})


def test_iterables_without_an_end_have_a_limit(folder):
    def pictures():
        return (DATA[i % 48] for i in itertools.count())
    wanted = tidemark.quantize(DIGITS, DATA, folder / "q.onnx", limit=20, skip=3).sqnr
    assert tidemark.quantize(DIGITS, pictures(), folder / "q.onnx", limit=20, skip=3).sqnr == wanted
    assert tidemark.plan_memory(DIGITS, pictures(), limit=4, sample_every=2)["batch"]
    assert tidemark.profile(DIGITS, pictures(), limit=5).run_report.samples == 5


def test_models_and_labels_may_be_in_memory(folder):
    wanted = {}
    for name, model in MODELS.items():
        encodings = PROFILE.calibrate(model=model)
        encodings.export("qdq", folder / f"{name}.onnx", model=model)
        PROFILE.report(folder / f"{name}.html", model=model)
        got = {"calibrate": [e.scale.tolist() for e in encodings.values()], "export": (folder / f"{name}.onnx").read_bytes(),
               "simulate": tidemark.simulate(model, encodings, DATA).values, "graph": tidemark.graph(model)}
        wanted = wanted or got
        assert got == wanted, name
    for labels in (RIGHT, list(RIGHT), RIGHT.tolist()):
        assert tidemark.simulate(DIGITS, ENCODINGS, DATA, labels=labels).accuracy_float == 1.0
    np.save(folder / "labels.npy", RIGHT)
    for labels in (RIGHT, folder / "labels.npy"):
        found = tidemark.search(DIGITS, ENCODINGS, DATA, profile=PROFILE, budget=2, labels=labels)
        assert found.own.in_float.accuracy == 1.0
        assert tidemark.quantize(DIGITS, DATA, folder / "q.onnx", labels=labels).simulation.accuracy_float == 1.0


def test_one_word_is_a_list_of_one(folder):
    assert figures(tidemark.profile(DIGITS, DATA, observe="activations")) == figures(tidemark.profile(DIGITS, DATA, observe=["activations"]))
    assert figures(tidemark.profile(DIGITS, DATA, exclude=0)) == figures(tidemark.profile(DIGITS, DATA, exclude=(n for n in [0.0])))
    assert figures(tidemark.merge(PROFILE)) == figures(tidemark.merge([PROFILE])) == figures(PROFILE)
    PROFILE.write(folder / "p.json")
    assert len(tidemark.merge(folder / "p.json")) == len(tidemark.merge(str(folder / "p.json"))) == len(PROFILE)
    tidemark.run(DIGITS, DATA, folder / "out.npz", values="probabilities")
    assert np.load(folder / "out.npz").files == ["probabilities"]
    assert tidemark.instrument(DIGITS, folder / "i.onnx", observe="conv*") == tidemark.instrument(DIGITS, folder / "i.onnx", observe=["conv*"])
    assert tidemark.transform(DIGITS, folder / "t.onnx", "fold-bias").nodes_before == 13


def test_numbers_may_be_numpys():
    whole = tidemark.profile(DIGITS, DATA, limit=np.int64(5), threads=np.uint8(1), exclude=np.float32([3]), dims={"N": np.int32(1)})
    assert figures(whole) == figures(tidemark.profile(DIGITS, DATA, limit=5, exclude=[3], dims={"N": 1}))


def test_configs_and_names_may_be_mappings(folder):
    config = {"rules": [{"match": {"op": "Conv"}, "quantize": False}], "skip_first_layer": True}
    (folder / "c.json").write_text(json.dumps(config))
    made, same = PROFILE.calibrate(config=config), PROFILE.calibrate(config=folder / "c.json")
    assert list(made) == list(same) != list(ENCODINGS)
    assert tidemark.search(DIGITS, made, DATA, profile=PROFILE, config=config, budget=2).tried
    found = [tidemark.quantize(DIGITS, DATA, folder / "q.onnx", config=c) for c in (config, folder / "c.json")]
    assert list(found[0].encodings) == list(found[1].encodings) and found[0].sqnr == found[1].sqnr
    assert "conv1.weight_1_1" not in found[0].encodings
    first = next(iter(made))
    made.export("csv", folder / "e.csv", names={first: "theirs"}, keep_names=True)
    assert ',"theirs",' in (folder / "e.csv").read_text()
    raises(tidemark.Error, "config.json: ", PROFILE.calibrate, config={"rules": 3})
    raises(tidemark.Error, "names.json: ", made.export, "csv", folder / "e.csv", names={first: 3})


def test_outputs_of_nan_have_no_decibels(folder):
    made = tidemark.quantize(DIGITS, np.full_like(DATA, np.nan), folder / "q.onnx")
    assert np.isnan(made.sqnr) and np.isnan(made.simulation.sqnr) and "nan dB" in repr(made)


def test_histograms_take_arrays_as_ranges():
    for kind in (tuple, list, np.array):
        assert PROFILE["image"].histogram(4, kind([0, 8]))[1].tolist() == [0, 2, 4, 6, 8]


def test_encodings_are_found_by_id():
    for name, encoding in ENCODINGS.items():
        assert ENCODINGS[encoding.id] is ENCODINGS[name] and encoding.id in ENCODINGS
    raises(KeyError, "nothing", ENCODINGS.__getitem__, "nothing")
    left = ENCODINGS.left[0]
    for key in (left.name, left.id):
        raises(KeyError, f"{key!r} stays float: {left.reason}", ENCODINGS.__getitem__, key)
        assert key not in ENCODINGS and ENCODINGS.get(key) is None


def test_a_full_disk_is_told():
    """Of the folder that TMPDIR names."""
    from harness import small_disk
    with small_disk(64 * 1024) as room:
        was, tempfile.tempdir = tempfile.tempdir, str(room)
        try:
            error = raises(OSError, "TMPDIR", tidemark.rank, DIGITS, ENCODINGS, np.tile(DATA, (20, 1, 1, 1)))
            assert str(room) in str(error) and "\n" not in str(error), error
        finally:
            tempfile.tempdir = was


def test_what_is_wrong_is_one_line():
    """Of what no annotation allows, too: what is wanted, and what it is instead; and no file that the caller has not named."""
    wrong = [raises(TypeError, "a model is a path, an onnx.ModelProto or the bytes of one, not ", tidemark.profile, model, DATA) for model in (None, 3, [])]
    wrong += [raises(TypeError, "data are paths, an array, ", tidemark.profile, DIGITS, data) for data in (3.0, b"data", object())]
    wrong += [raises(ValueError, "shard is (k, n)", tidemark.profile, DIGITS, DATA, shard=shard) for shard in ("1/4", 3, (1, 2, 3), [1])]
    wrong += [raises(TypeError, f"{name}: a text is wanted, not int", tidemark.profile, DIGITS, DATA, **{name: value})
              for name, value in (("image", 3), ("reset", 3), ("strata", 3), ("checkpoint", 3), ("observe", [3]), ("dims", {3: 1}))]
    wrong += [raises(ValueError, "image, only for ['other']", call, *words) for call, words in (
        (tidemark.profile, (DIGITS, {"other": DATA})), (tidemark.quantize, (DIGITS, [{"other": DATA}], FOLDER / "q.onnx")))]
    wrong += [raises(ValueError, "only for ['other']", tidemark.profile, DIGITS, [{"image": DATA}, {"other": DATA}])]
    wrong += [raises(TypeError, "an array of numbers is wanted, not of ", tidemark.profile, DIGITS, np.array([word])) for word in ("word", 1j)]
    wrong += [raises(ValueError, "parameter is 0", PROFILE.calibrate, parameter=-1)]
    wrong += [raises(TypeError, "histogram_share is a number", tidemark.profile, DIGITS, DATA, histogram_share="1/8")]
    wrong += [raises(TypeError, "a tidemark.Profile, or the path of its file, is expected, not ", call, *words)
              for call, words in ((tidemark.merge, [[3]]), (tidemark.diff, [PROFILE, ENCODINGS]), (tidemark.diff, [3, PROFILE]))]
    wrong += [raises(ValueError, f"{name}: is 0 or more", tidemark.profile, DIGITS, str(PICTURES), **{name: value}, checkpoint=FOLDER / "c.h5")
              for name in ("until_stable", "checkpoint_every") for value in (-1.0, np.nan)]
    wrong += [raises(ValueError, "0 or more", tidemark.set_limits, **{name: -1}) for name in ("memory", "operations")]
    wrong += [raises(tidemark.Error, "profile 1", tidemark.merge, [PROFILE, PROFILE])]
    wrong += [raises(tidemark.Error, "the data holds no sample", tidemark.profile, DIGITS, DATA[:0])]
    wrong += [raises(tidemark.Error, "data", tidemark.quantize, DIGITS, DATA[:, :, :4], FOLDER / "q.onnx")]
    wrong += [raises(tidemark.Error, "model.onnx", tidemark.profile, b"no model", DATA)]
    wrong += [raises(tidemark.Error, "labels.npy", tidemark.simulate, DIGITS, ENCODINGS, DATA, labels=[0.5] * 48)]
    for error in wrong:
        text = str(error).replace(str(SOURCE), "").replace(str(FOLDER), "")  # which may lie in a temporary folder
        assert "\n" not in text and os.path.join(tempfile.gettempdir(), tempfile.gettempprefix()) not in text, error


main()
