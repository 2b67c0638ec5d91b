# SPDX-License-Identifier: Apache-2.0
"""`export --to relay`, read by the reference reader: annotations are identities with the values of the encodings; integer graphs
give code for code what our own integer form gives. FILE.py PROGRAM SOURCE FEATURES INTEGER_GRAPH."""
import dataclasses
import json
import re
import struct
import sys

# First: it leaves the test out where packages are missing.
from oracle import SHARED, folder, graph_inputs, main, model_of, needs, present, refused, samples, sources, tidemark
from relay_reference import Module

import numpy as np
import onnx

needs("relay")

INTEGER_GRAPH = sys.argv[4]
SAMPLES = 3
# name: options of calibrate besides its defaults (uint8, weights int8 by channel)
NETWORKS = {
    "digits": [[], ["--pow2", "--pow2-requant"]],
    "mnist_mlp": [[], ["--weights-per-tensor"], ["--rounding", "single_half_away"]],
    "mnist_cnn": [[], ["--pow2", "--pow2-requant"], ["--dtype", "int8", "--scheme", "symmetric"]],
    "mlperf_ic_resnet8": [[], ["--weights-per-tensor"]],
    "mlperf_vww_mobilenet": [[]],
    "mlperf_ad_autoencoder": [[]],
}
NETWORKS = {found: how for name, how in NETWORKS.items() for found in present(name)}
MLP, = present("mnist_mlp")
RELAY = ["mlp", "cnn", "resblock", "attn"]


def of_onnx(name):
    order = graph_inputs(onnx.load(model_of(name)))
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in onnx.load(model_of(name)).graph.input}
    feeds = [[feed[key] if feed[key].ndim == ranks[key] else feed[key][None] for key in order]
             for feed in samples(name, SAMPLES)]
    return Network(name, [model_of(name)], sources(name), order, feeds)


def of_relay(name):
    """A network of TVM's, as text and params."""
    place = SHARED / "relay" / "golden" / name
    with np.load(place / "inputs.npz") as arrays:
        feeds = dict(arrays)
    return Network(name, [place / "0_raw.relay.txt", "--params", place / f"{name}.params"], [place / "inputs.npz"], list(feeds),
                   [list(feeds.values())])


@dataclasses.dataclass
class Network:
    name: str
    model: list  # the file, and what follows it
    data: list
    inputs: list  # names
    feeds: list  # in the shapes that the model has, in its order

    def data_words(self):
        return [word for source in self.data for word in ("--data", source)]

    def calibrated(self, path, *how):
        profile, encodings = path / "profile.json", path / "encodings.json"
        tidemark("profile", *self.model, *self.data_words(), "--limit", 16, "--quiet", "-o", profile)
        tidemark("calibrate", profile, "--sensitive=quantize", "--quiet", *how, "-o", encodings)
        return encodings

    def exported(self, path, encodings, *settings):
        out = path / "out.relay"
        tidemark("export", encodings, "--model", *self.model, "--to", "relay", *settings, "-o", out)
        return Module(out, path / "out.params"), json.loads((path / "out.edges.json").read_text()), \
            json.loads((path / "out.params.json").read_text())

    def codes(self, path, encodings, arrays):
        """{profile ID: codes} of our own integer form."""
        file, *params = self.model
        said = tidemark(file, encodings, path / "integer.onnx", *params, program=INTEGER_GRAPH)
        names = dict(line.split(" ", 1) for line in said.splitlines())
        np.savez(path / "in.npz", **dict(zip(self.inputs, arrays)))
        values = [word for value in names.values() for word in ("--values", value)]
        tidemark("run", path / "integer.onnx", "--data", path / "in.npz", *values, "-o", path / "codes.npz")
        with np.load(path / "codes.npz") as codes:
            return {profile_id: codes[value] for profile_id, value in names.items() if value in codes.files}


def same_bits(a, b):
    return struct.pack("<f", a) == struct.pack("<f", b)


def test_annotations_hold_the_encodings_and_change_no_number():
    for name in NETWORKS:
        with folder() as path:
            network = of_onnx(name)
            encodings = network.calibrated(path)
            module, edges, _ = network.exported(path, encodings)
            plain = path / "plain.relay"
            tidemark("transform", model_of(name), "--passes", "none", "-o", plain, "--params-out", path / "plain.params")
            plain = Module(plain, path / "plain.params")
            for arrays in network.feeds:
                for a, b in zip(module.run(*arrays)[0], plain.run(*arrays)[0]):
                    assert a.dtype == b.dtype and np.array_equal(a, b), name
            chosen = {}
            for item in json.loads(encodings.read_text())["encodings"]:
                chosen[item["id"]] = item
            told = module.calls("annotation.quantize_info")
            assert len(told) >= len(chosen), f"{name}: {len(told)} annotations for {len(chosen)} encodings"
            for call in told:
                attrs = call["attrs"]
                entry = edges["values"][attrs["profile_id"]]
                assert entry["dtype"] == attrs["dtype"] and entry["kind"] == attrs["kind"]
                if attrs["dtype"] == "float32":
                    assert attrs["profile_id"] not in chosen and entry["reason"]
                    continue
                item = chosen[attrs["profile_id"]]
                scales = attrs["ndom_scale"] if isinstance(attrs["ndom_scale"], list) else [attrs["ndom_scale"]]
                assert len(scales) == len(item["scale"])
                assert all(same_bits(a, b) for a, b in zip(scales, item["scale"])), attrs
                if len(scales) == 1:
                    assert float.fromhex(entry["ndom_scale_hex"]) == struct.unpack("<f", struct.pack("<f", scales[0]))[0]
                for key in ("min", "max"):
                    assert same_bits(attrs[key], item["observed_" + key]), (key, attrs)


def test_tables_map_names_to_edges(path):
    network = of_onnx(MLP)
    module, edges, params = network.exported(path, network.calibrated(path))
    lines = dict(re.findall(r"^ *(%\d+) = (.*)$", module.text, re.M))
    for name, profile_id in edges["names"].items():
        entry = edges["values"][profile_id]
        assert entry["name"] == name
        if re.match(r"%\d", entry["relay_name"]):
            assert entry["relay_name"] in lines and edges["relay_names"][entry["relay_name"]] == profile_id
    assert set(params["params"]) == set(module.params)
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model_of(MLP)).graph.initializer}
    assert {entry["name"] for entry in params["params"].values()} == set(stored)
    for key, entry in params["params"].items():
        array = module.params[key]
        assert array.tobytes() == stored[entry["name"]].tobytes() and str(array.dtype) == entry["stored_dtype"]
        assert list(array.shape) == entry["shape"] and not entry["holds_codes"] and len(entry["scale"]) >= 1


def agree(network, path, how):
    """Counts the codes that the reference reader and our integer form were found to agree in."""
    compared = 0
    encodings = network.calibrated(path, *how)
    module, edges, _ = network.exported(path, encodings, "--set", "form=integer")
    assert any(n["op"] in ("nn.conv2d", "nn.dense") and (n.get("ty") or "").endswith("int32]") for n in module.calls())
    if "--pow2-requant" in how:
        assert not module.calls("fixed_point_multiply"), f"{network.name}: multipliers as well as shifts"
    floats = module.after_floats()
    for arrays in network.feeds:
        _, values = module.run(*arrays)
        ours = network.codes(path, encodings, arrays)
        found = {edges["relay_names"][key]: value for key, _, value in values if key in edges["relay_names"]}
        both = [key for key in set(found) & set(ours) if ours[key].dtype.kind in "iu"]
        assert len(both) > len(ours) // 2, f"{network.name}: {sorted(both)} of {sorted(ours)}"
        for key in both:
            got, want = found[key], ours[key].reshape(found[key].shape)
            differ = np.count_nonzero(got != want)
            assert got.dtype == want.dtype, f"{got.dtype}, not {want.dtype}"
            if edges["values"][key]["relay_name"] in floats:
                far = np.abs(got.astype(np.int64) - want).max()
                assert far <= 1 and differ <= max(2, got.size // 20), f"{network.name} {how}, {key}: {differ} of {got.size}"
                continue
            assert not differ, f"{network.name} {how}, {key}: {differ} of {got.size} codes differ"
            compared += got.size
    return compared


def test_integer_graphs_agree_code_for_code():
    compared = 0
    for name, choices in NETWORKS.items():
        for how in choices:
            with folder() as path:
                compared += agree(of_onnx(name), path, how)
    for name in RELAY:
        with folder() as path:
            compared += agree(of_relay(name), path, [])
    print(f"   {compared} codes")


def test_no_float_is_multiplied_between_the_first_code_and_the_last(path):
    network = of_onnx(MLP)
    module, edges, _ = network.exported(path, network.calibrated(path), "--set", "form=integer")
    names = [name for name, _, _ in module.run(*network.feeds[0])[1]]
    first = names.index(edges["values"]["p0"]["relay_name"])
    last = next(i for i, n in enumerate(module.main.nodes) if n["op"] == "qnn.dequantize")
    floats = [n["op"] for n in module.main.nodes[first:last] if "float" in (n.get("ty") or "")]
    assert first < last and not floats, floats


def test_import_of_the_export_computes_the_same():
    for name in present("digits", "mnist_cnn"):
        for settings in (["form=integer"], ["form=annotated"], ["form=annotated", "weights=codes"]):
            with folder() as path:
                network = of_onnx(name)
                words = [word for setting in settings for word in ("--set", setting)]
                module, _, _ = network.exported(path, network.calibrated(path), *words)
                for arrays in network.feeds:
                    np.savez(path / "in.npz", **dict(zip(module.inputs(), arrays)))
                    tidemark("run", path / "out.relay", "--params", path / "out.params", "--data", path / "in.npz", "-o",
                             path / "out.npz")
                    with np.load(path / "out.npz") as ours:
                        for got, want in zip(ours.values(), module.run(*arrays)[0]):
                            error = np.abs(got.reshape(want.shape) - want).max() / max(np.abs(want).max(), 1e-30)
                            assert error <= 1e-5, f"{name} {settings}: {error}"


def test_weights_may_be_codes_that_the_text_dequantizes(path):
    network = of_onnx("digits")
    encodings = network.calibrated(path)
    integers, _, _ = network.exported(path, encodings, "--set", "form=integer")
    module, _, params = network.exported(path, encodings, "--set", "weights=codes")
    coded = [key for key, entry in params["params"].items() if entry["holds_codes"]]
    assert coded
    for key in coded:
        codes, entry = module.params[key], params["params"][key]
        assert str(codes.dtype) == entry["dtype"] == entry["stored_dtype"]
        if key in integers.params and entry["role"] == "weight":
            assert np.array_equal(codes, integers.params[key]), key


def test_weights_are_codes_under_their_own_names(path):
    network = of_onnx(MLP)
    module, _, params = network.exported(path, network.calibrated(path), "--set", "form=integer")
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model_of(MLP)).graph.initializer}
    named = {entry["name"]: key for key, entry in params["params"].items() if entry["holds_codes"]}
    assert set(named) == set(stored), f"{sorted(named)} of {sorted(stored)}"
    for name, key in named.items():
        entry, codes = params["params"][key], module.params[key]
        assert codes.dtype == (np.int32 if entry["role"] == "bias" else np.int8)
        scale = np.array(entry["scale"], np.float32)
        if scale.size > 1:
            scale = scale.reshape([-1 if i == entry["axis"] else 1 for i in range(stored[name].ndim)])
        real = codes.reshape(stored[name].shape) * scale
        assert np.abs(real - stored[name]).max() <= np.max(scale) * 0.5001, name


def test_unsupported_rounding_is_refused(path):
    encodings = of_onnx("digits").calibrated(path, "--rounding", "float_rne")
    words = ["export", encodings, "--model", model_of("digits"), "--to", "relay", "--set", "form=integer", "-o", path / "out.relay"]
    refused(words, "single_half_up")
    assert not (path / "out.relay").exists()


main()
