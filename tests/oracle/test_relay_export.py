# SPDX-License-Identifier: Apache-2.0
"""`export --to relay`, read by the reference reader: annotations are identities that say what the encodings say; integer graphs
give code for code what our own integer form gives. FILE.py PROGRAM SOURCE FEATURES INTEGER_GRAPH."""
import json
import re
import struct
import subprocess
import sys

import numpy as np
import onnx

from oracle import folder, graph_inputs, main, model_of, samples, sources, tidemark
from relay_reference import Module

INTEGER_GRAPH = sys.argv[4]
SAMPLES = 3
# name: what calibrate is asked for beside its defaults (uint8, weights int8 by channel)
NETWORKS = {
    "digits": [[], ["--pow2", "--pow2-requant"]],
    "mnist_mlp": [[], ["--weights-per-tensor"], ["--rounding", "single_half_away"]],
    "mnist_cnn": [[], ["--pow2", "--pow2-requant"], ["--dtype", "int8", "--scheme", "symmetric"]],
    "mlperf_ic_resnet8": [[], ["--weights-per-tensor"]],
    "mlperf_ad_autoencoder": [[]],
}


def data_of(name):
    return [word for source in sources(name) for word in ("--data", source)]


def calibrated(name, path, *how):
    profile, encodings = path / "profile.json", path / "encodings.json"
    tidemark("profile", model_of(name), *data_of(name), "--limit", 16, "--quiet", "-o", profile)
    tidemark("calibrate", profile, "--quiet", *how, "-o", encodings)
    return encodings


def exported(name, path, encodings, *settings):
    out = path / "out.relay"
    tidemark("export", encodings, "--model", model_of(name), "--to", "relay", *settings, "-o", out)
    return Module(out, path / "out.params"), json.loads((path / "out.edges.json").read_text()), \
        json.loads((path / "out.params.json").read_text())


def feeds(name):
    """Inputs in the shapes that the model has, in its order."""
    order = graph_inputs(onnx.load(model_of(name)))
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in onnx.load(model_of(name)).graph.input}
    for feed in samples(name, SAMPLES):
        yield [feed[key] if feed[key].ndim == ranks[key] else feed[key][None] for key in order]


def same_bits(a, b):
    return struct.pack("<f", a) == struct.pack("<f", b)


def test_annotations_change_no_number_and_say_the_encodings():
    for name in NETWORKS:
        with folder() as path:
            encodings = calibrated(name, path)
            module, edges, _ = exported(name, path, encodings)
            plain = path / "plain.relay"
            tidemark("transform", model_of(name), "--passes", "eliminate-dead", "-o", plain, "--params-out", path / "plain.params")
            plain = Module(plain, path / "plain.params")
            for arrays in feeds(name):
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


def test_tables_lead_from_names_to_edges():
    with folder() as path:
        module, edges, params = exported("mnist_mlp", path, calibrated("mnist_mlp", path))
        lines = dict(re.findall(r"^ *(%\d+) = (.*)$", module.text, re.M))
        for name, profile_id in edges["names"].items():
            entry = edges["values"][profile_id]
            assert entry["name"] == name
            if re.match(r"%\d", entry["relay_name"]):
                assert entry["relay_name"] in lines and edges["relay_names"][entry["relay_name"]] == profile_id
        assert set(params["params"]) == set(module.params)
        stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model_of("mnist_mlp")).graph.initializer}
        assert {entry["name"] for entry in params["params"].values()} == set(stored)
        for key, entry in params["params"].items():
            array = module.params[key]
            assert array.tobytes() == stored[entry["name"]].tobytes() and str(array.dtype) == entry["stored_dtype"]
            assert list(array.shape) == entry["shape"] and not entry["holds_codes"] and len(entry["scale"]) >= 1


def our_codes(name, path, encodings, arrays):
    """{profile ID: codes} of our own integer form."""
    said = subprocess.run([INTEGER_GRAPH, model_of(name), encodings, path / "integer.onnx"], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    names = dict(line.split(" ", 1) for line in said.stdout.splitlines())
    inputs = graph_inputs(onnx.load(model_of(name)))
    np.savez(path / "in.npz", **dict(zip(inputs, arrays)))
    values = [word for value in names.values() for word in ("--values", value)]
    tidemark("run", path / "integer.onnx", "--data", path / "in.npz", *values, "-o", path / "codes.npz")
    with np.load(path / "codes.npz") as codes:
        return {profile_id: codes[value] for profile_id, value in names.items() if value in codes.files}


def test_integer_graphs_agree_code_for_code():
    compared = 0
    for name, choices in NETWORKS.items():
        for how in choices:
            with folder() as path:
                encodings = calibrated(name, path, *how)
                module, edges, params = exported(name, path, encodings, "--set", "form=integer")
                floats = [n for n in module.calls("multiply") if "float" in (n.get("ty") or "")]
                assert not floats, f"{name} {how}: {floats}"
                if "--pow2-requant" in how:
                    assert not module.calls("fixed_point_multiply"), f"{name}: multipliers beside shifts"
                for arrays in feeds(name):
                    _, values = module.run(*arrays)
                    ours = our_codes(name, path, encodings, arrays)
                    found = {edges["relay_names"][key]: value for key, _, value in values if key in edges["relay_names"]}
                    both = set(found) & set(ours)
                    assert len(both) > len(ours) // 2, f"{name}: {sorted(both)} of {sorted(ours)}"
                    for key in both:
                        got, want = found[key], ours[key].reshape(found[key].shape)
                        assert got.dtype == want.dtype and np.array_equal(got, want), \
                            f"{name} {how}, {key}: {np.count_nonzero(got != want)} of {got.size} codes differ"
                        compared += got.size
    print(f"   {compared} codes")
    assert compared


def test_weights_are_codes_under_their_own_names():
    with folder() as path:
        module, _, params = exported("mnist_mlp", path, calibrated("mnist_mlp", path), "--set", "form=integer")
        stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model_of("mnist_mlp")).graph.initializer}
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


def test_what_integers_cannot_say_is_refused():
    with folder() as path:
        encodings = calibrated("digits", path, "--rounding", "float_rne")
        done = subprocess.run([sys.argv[1], "export", encodings, "--model", model_of("digits"), "--to", "relay", "--set",
                               "form=integer", "-o", path / "out.relay"], capture_output=True, text=True)
        assert done.returncode == 3 and "single_half_up" in done.stderr and not (path / "out.relay").exists(), done.stderr


if __name__ == "__main__":
    main(globals())
