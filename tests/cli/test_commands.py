# SPDX-License-Identifier: Apache-2.0
"""Every command of the program: help, options, output files."""
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import time
import zipfile

import onnx_bytes as onnx
from cli import (ANSWER_NO, BAD_INPUT, BUNDLE, DIGITS, DONE, FEATURES, MACHINE, PICTURES, PROGRAM, SOURCE, WRONG_CALL, files, main,
                 npy_bytes, read_npy, tensors_of, tidemark)
from merge_shards import make_shards

RUNNING = ["params", "data", "dim", "limit", "threads", "batch"]
OPTIONS = {
    "profile": [*RUNNING, "output", "observe", "kind", "nan"],
    "merge": ["output"],
    "check": ["params", "against", "target", "lineage", "coverage", "json"],
    "diff": ["range", "distance", "format", "all", "limit", "sort", "filter", "json"],
    "show": ["json", "nodes", "patterns", "sort", "filter"],
    "instrument": ["params", "output", "observe", "kind"],
    "transform": ["params", "passes", "output", "params-out", "profile", "lineage", "observers", "print-after", "json"],
    "link": [*RUNNING, "output", "lineage", "numbers", "original", "original-params", "tensors", "samples", "report",
             "lineage-out", "json"],
    "export": ["to", "output", "model", "params", "names", "keep-names", "template", "set", "target", "json"],
    "calibrate": ["output", "method", "percentile", "dtype", "weights-dtype", "scheme", "weights-scheme", "per-channel", "pow2",
                  "rounding", "pow2-requant", "config", "sensitive", "target", "json"],
    "graph": ["params", "dot", "ops", "json", "patterns", "lineage"],
    "report": ["output", "since", "encodings", "simulation", "model", "params", "title"],
    "run": [*RUNNING, "output", "values"],
    "simulate": [*RUNNING, "integer", "requant", "rounding", "target", "labels", "sort", "search", "search-data", "goal", "budget",
                 "metric-command", "metric-timeout", "write-config", "json"],
    "quantize": [*RUNNING, "output", "target", "config", "labels", "template", "profile", "encodings", "folded", "json"],
    "verify": ["params", "rtol", "atol"],
    "bench": [*RUNNING, "figure", "histogram-share", "repeat", "seconds", "json"],
    "doctor": [],
}
HAVE_HDF5 = "hdf5" in FEATURES


def profile(target, *more, data=PICTURES, limit=20, model=DIGITS):
    return tidemark("profile", model, "--data", data, "--limit", limit, "-o", target, *more)


# ---- help, and wrong command lines ----

def test_nodes_are_shown_with_a_value_per_port(path):
    profile(path / "p.json").expect(DONE)
    wanted = {}
    for name, tensor in tensors_of(path / "p.json").items():
        for use in tensor["consumers"]:
            wanted.setdefault(use["node"], {})[("inputs", use["input"])] = tensor["id"]
        if tensor["producer"]:
            wanted.setdefault(tensor["producer"]["node"], {})[("outputs", tensor["producer"]["output"])] = tensor["id"]
    nodes = json.loads(tidemark("show", path / "p.json", "--nodes", "--json").expect(DONE).out)
    assert wanted == {node["node"]: {(side, port["port"]): port["id"] for side in ("inputs", "outputs") for port in node[side]}
                      for node in nodes}
    assert all("min" in port for node in nodes for port in node["outputs"])
    done = tidemark("show", path / "p.json", "conv1_out", "--nodes").expect(DONE, "Conv conv1", "conv1.weight", "scale_out")
    assert done.out.count("output") == 1
    tidemark("show", path / "p.json", "--patterns").expect(DONE, "input-norm", "softmax")
    rows = json.loads(tidemark("show", path / "p.json", "probabilities", "--patterns", "--json").expect(DONE).out)
    assert rows == [{"pattern": "softmax", "occurrence": 2, "op": "Softmax", "node": "softmax", "id": "p28"}], rows
    tidemark("show", path / "p.json", "--nodes", "--convergence").refuses(WRONG_CALL, "one at a time")


def test_help_lists_all_commands():
    for words in (["--help"], ["-h"], ["help"]):
        done = tidemark(*words).expect(DONE, *OPTIONS)
        assert not done.err
    assert re.match(r"tidemark \d+\.\d+\.\d+( \(commit [0-9a-f]{7,}(-dirty)?\))?\nbuilt with: ", tidemark("--version").expect(DONE).out)
    done = tidemark().expect(WRONG_CALL, *OPTIONS)
    assert not done.out
    tidemark("frobnicate").refuses(WRONG_CALL, "frobnicate", "--help")


def test_doctor_checks_the_kernels(path):
    tidemark("doctor", BUNDLE).expect(DONE, "built with: ", "memory: ", "processor: ", "kernels of ", "self-test: passed: 29 values")
    helpers = ["archives", *(name for name in ("hdf5", "images") if name in FEATURES)]  # of the build folder, as the bundled files
    tidemark("doctor").expect(DONE, "self-test: passed: ", *(f"reading {name}: " for name in helpers))
    lost = tidemark("doctor", env={**os.environ, "TIDEMARK_LIBEXEC": str(path)})
    assert lost.status == ANSWER_NO and "TIDEMARK_LIBEXEC" in lost.out, lost.out
    for name in ("digits.onnx", "digits.npy", "digits-profile.json"):
        shutil.copy(BUNDLE / name, path)
    tidemark("profile", DIGITS, "--data", PICTURES, "--skip", 64, "--limit", 64, "--kind", "range", "-o",
             path / "digits-profile.json").expect(DONE)
    tidemark("doctor", path).expect(ANSWER_NO, "self-test: failed: ")
    (path / "digits.onnx").unlink()
    tidemark("doctor", path).expect(BAD_INPUT, "digits.onnx")
    tidemark("doctor", path, path).refuses(WRONG_CALL, "FOLDER")


def test_help_of_each_command_lists_its_options():
    listed = [line.split()[0] for line in tidemark("--help").out.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(OPTIONS), f"a command without a test, or the reverse: {listed}"
    for command, options in OPTIONS.items():
        done = tidemark(command, "--help").expect(DONE, f"usage: tidemark {command}", "Example:")
        said = [word for word in done.out.split() if word.startswith("--") and word.strip("-")]
        for option in [*options, "quiet", "help"]:
            assert f"--{option}" in said, f"{command} --help does not name --{option}"
        assert not done.err


def test_man_pages_and_completions_equal_the_help():
    tidemark("help", "--man").expect(DONE, *(command.replace("-", "\\-") for command in OPTIONS))
    shells = {shell: tidemark("completion", shell).expect(DONE).out for shell in ("bash", "zsh", "fish")}
    for command, options in OPTIONS.items():
        page = tidemark("help", "--man", command).expect(DONE).out
        assert page.startswith(".TH TIDEMARK") and ".SH EXAMPLE" in page
        for option in [*options, "quiet"]:
            assert "\\-\\-" + option.replace("-", "\\-") in page, f"{option} is not in the man page of {command}"
            assert all(f"--{option}" in text for text in shells.values()), f"{option} of {command} is not completed"
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], input=page, capture_output=True, text=True)
            assert not done.stderr, f"the man page of {command}: {done.stderr}"
        text = tidemark("help", command).expect(DONE).out
        assert text == tidemark(command, "--help").out
    done = subprocess.run(["bash", "-c", shells["bash"] + 'COMP_WORDS=(tidemark report --sin); COMP_CWORD=2; _tidemark; echo "${COMPREPLY[@]}"'],
                          capture_output=True, text=True)
    assert done.stdout == "--since\n" and not done.stderr, done
    tidemark("completion").refuses(WRONG_CALL, "bash")
    tidemark("help", "frobnicate").refuses(WRONG_CALL, "frobnicate")


def examples():
    for command in OPTIONS:
        text = tidemark(command, "--help").out
        for line in text[text.index("Example:"):].replace("\\\n", "").splitlines():
            if line.startswith("  tidemark "):
                yield shlex.split(line)[1:]


def test_every_example_of_the_help_works_as_typed(path):
    found = list(examples())
    assert {words[0] for words in found} == set(OPTIONS)
    first = ["profile", "calibrate"]  # others look at what these wrote
    found.sort(key=lambda words: first.index(words[0]) if words[0] in first else len(first))
    for name in ("digits.onnx", "digits.npy"):
        shutil.copy(BUNDLE / name, path)
    make_test_set(path / "test_data_set_0")
    shutil.copy(path / "digits.onnx", path / "model.onnx")
    shutil.copy(SOURCE / "tests" / "golden" / "encodings-1.0.json", path / "enc.json")
    make_shards(path, DIGITS, PICTURES, [10], limit=20)
    for day in ("monday", "tuesday"):  # for `diff`
        profile(path / f"{day}.json").expect(DONE)
    for words in found:
        if not HAVE_HDF5 and words[0] == "profile":
            words = [w for w in words[:-2]]
        tidemark(*words, cwd=path).expect(DONE)


def test_usage_errors_are_reported_in_one_line(path):
    for command in OPTIONS:
        if command != "doctor":  # it needs no argument
            tidemark(command).refuses(WRONG_CALL, command, "--help")
        tidemark(command, "--frobnicate").refuses(WRONG_CALL, "--frobnicate")
        tidemark(command, "-Z").refuses(WRONG_CALL, "-Z")
    target = path / "p.json"
    tidemark("profile", DIGITS, "--data").refuses(WRONG_CALL, "--data")
    tidemark("profile", DIGITS, "--data", PICTURES).refuses(WRONG_CALL, "-o")
    tidemark("profile", DIGITS, "--data", PICTURES, "-o", path / "p.txt").refuses(WRONG_CALL, "p.txt", ".json")
    tidemark("profile", DIGITS, "-o", target).refuses(WRONG_CALL, "image", "--data")
    for count in ("-3", "many", "1.5", "", "99999999999999999999"):
        profile(target, "--limit", count).refuses(WRONG_CALL, "--limit")
    profile(target, "--threads", "1000000").refuses(WRONG_CALL, "--threads")
    profile(target, "--nan", "ignore").refuses(WRONG_CALL, "--nan", "ignore")
    for kind in ("minmax", "range", "histogram", "print", "guard"):
        profile(target, "--kind", "median").refuses(WRONG_CALL, "median", kind)
        assert kind in re.search(r"--kind KIND +(.*)", tidemark("profile", "--help").out)[1]
    for option in ("--limit", "--sample-every"):  # as of head and git log, 0 would be none
        profile(target, option, 0).refuses(WRONG_CALL, option, "'0'")
    profile(target, "--dim", "N").refuses(WRONG_CALL, "--dim")
    profile(target, "--dim", "M=3").refuses(WRONG_CALL, "--dim M")
    profile(target, "--dim", "N=1", "--dim", "N=2").refuses(WRONG_CALL, "--dim N is given twice")
    profile(target, "--data", PICTURES).refuses(WRONG_CALL)
    tidemark("run", DIGITS, "--data", PICTURES).refuses(WRONG_CALL, "-o")
    tidemark("instrument", DIGITS).refuses(WRONG_CALL, "-o")
    tidemark("instrument", DIGITS, DIGITS, "-o", path / "x.onnx").refuses(WRONG_CALL)
    tidemark("graph", DIGITS, "--dot", "--json").refuses(WRONG_CALL, "--dot")
    tidemark("verify", DIGITS).refuses(WRONG_CALL, "DIR")
    tidemark("verify", DIGITS, path, "--rtol", "-1").refuses(WRONG_CALL, "--rtol")
    assert files(path) == [], "a wrong command line wrote something"


# ---- profile ----

def test_profile_writes_every_format_asked_for(path):
    outputs = ["p.json"] + (["p.h5", "q.hdf5"] if HAVE_HDF5 else [])
    words = [word for name in outputs for word in ("-o", path / name)]
    done = tidemark("profile", DIGITS, "--data", PICTURES, *words).expect(DONE)
    assert not done.out, "progress belongs on stderr"
    assert "1797 samples" in done.err and all(name in done.err for name in outputs), done
    assert files(path) == sorted(outputs), "something was left next to the outputs"
    if HAVE_HDF5:
        assert (path / "p.h5").read_bytes()[:8] == b"\x89HDF\r\n\x1a\n"
        assert (path / "p.h5").read_bytes() == (path / "q.hdf5").read_bytes()
    profile = json.loads((path / "p.json").read_text())
    assert profile["ledger"]["run"] == profile["ledger"]["offered"] == 1797
    tensors = {tensor["name"]: tensor for tensor in profile["tensors"]}
    assert tensors["image"]["count"] == 1797 * 64 and tensors["image"]["samples"] == 1797
    assert (tensors["image"]["min"], tensors["image"]["max"]) == (0, 16)
    assert tensors["probabilities"]["kind"] == "output" and tensors["probabilities"]["max"] <= 1
    assert len({tensor["id"] for tensor in profile["tensors"]}) == len(tensors)


def test_short_options_take_an_equals_sign(path):
    """As long ones do: no file is named "=profile.json"."""
    profile(path / "long.json", data=f"image={PICTURES}").expect(DONE)
    tidemark("profile", DIGITS, "--data", PICTURES, "-n=20", "-t=1", f"-o={path / 'short.json'}").expect(DONE)
    assert (path / "short.json").read_bytes() == (path / "long.json").read_bytes() and len(list(path.iterdir())) == 2


def test_profile_replaces_an_existing_file_only_on_success(path):
    target = path / "p.json"
    target.write_text("old")
    broken = path / "broken.npy"
    broken.write_bytes(PICTURES.read_bytes()[:500])
    profile(target, data=broken).refuses(3, "broken.npy")
    assert target.read_text() == "old"
    profile(target).expect(DONE)
    json.loads(target.read_text())


def test_quiet_prints_nothing(path):
    for words in (["profile", DIGITS, "--data", PICTURES, "-o", path / "p.json"],
                  ["run", DIGITS, "--data", PICTURES, "-o", path / "r.npz"],
                  ["instrument", DIGITS, "-o", path / "i.onnx"],
                  ["calibrate", path / "p.json", "-o", path / "e.json"],
                  ["simulate", DIGITS, path / "e.json", "--data", PICTURES, "--limit", 4, "--search", "--budget", 1,
                   "--profile", path / "p.json", "-o", path / "s.json"],
                  ["export", path / "e.json", "--to", "csv", "-o", path / "e.csv"],
                  ["transform", DIGITS, "--passes", "all", "-o", path / "t.onnx"],
                  ["link", path / "p.json", path / "t.onnx", "-o", path / "l.json"],
                  ["merge", path / "p.json", "-o", path / "m.json"], ["report", path / "p.json", "-o", path / "r.html"],
                  ["check", path / "p.json", "--against", DIGITS], ["check", path / "p.json", "--against", path / "e.json"],
                  ["diff", path / "p.json", path / "m.json"]):
        for flag in ("--quiet", "-q"):
            done = tidemark(*words, flag).expect(DONE)
            assert not done.err and not done.out, done


def test_limit_batch_and_threads_are_applied(path):
    target = path / "p.json"
    profile(target, "--limit", "37", "--batch", "1").expect(DONE)
    one = json.loads(target.read_text())
    assert (one["ledger"]["offered"], one["ledger"]["run"], one["ledger"]["batches"]) == (37, 37, 37)
    profile(target, "--limit", "37", "--batch", "10", "--threads", "3").expect(DONE)
    ten = json.loads(target.read_text())
    assert (ten["ledger"]["run"], ten["ledger"]["batches"]) == (37, 4)
    for a, b in zip(one["tensors"], ten["tensors"], strict=True):
        assert a["id"] == b["id"] and a.get("samples") == b.get("samples")
        if a["kind"] != "weight":
            assert a["count"] == b["count"], a["name"]
    profile(target, "--dim", "N=1").expect(DONE)
    profile(target, "--dim", "N=2").refuses(3, "'N'")
    profile(target, "--dim", "N=2", "--batch", "2").expect(DONE)


def test_data_is_bound_to_inputs_by_name(path):
    target, plain = path / "p.json", path / "q.json"
    profile(plain).expect(DONE)
    tidemark("profile", DIGITS, "--data", f"image={PICTURES}", "--limit", 20, "-o", target).expect(DONE)
    assert target.read_bytes() == plain.read_bytes()
    odd = path / "a=b.npy"
    shutil.copy(PICTURES, odd)
    profile(target, data=odd).expect(DONE)
    with zipfile.ZipFile(path / "two.npz", "w") as archive:
        archive.write(PICTURES, "image.npy")
        archive.writestr("labels.npy", npy_bytes([1797], kind="<i8"))
    profile(target, data=path / "two.npz").expect(DONE)
    assert tensors_of(target) == tensors_of(plain)
    with zipfile.ZipFile(path / "none.npz", "w") as archive:
        archive.write(PICTURES, "picture.npy")
        archive.writestr("labels.npy", npy_bytes([1797], kind="<i8"))
    profile(target, data=path / "none.npz").refuses((2, 3), "none.npz", "image")


def test_observe_selects_values(path):
    target = path / "p.json"
    profile(target).expect(DONE)
    everything = tensors_of(target)
    weights = {name for name, tensor in everything.items() if tensor["kind"] == "weight"}

    def observed(*words):
        profile(target, *words).expect(DONE)
        now = tensors_of(target)
        assert now.keys() == everything.keys(), "every value has a record, observed or not"
        return {name for name, tensor in now.items() if tensor["status"] != "never"}

    assert observed() == observed("--observe", "all") == set(everything)
    assert observed("--observe", "weights") == weights
    assert observed("--observe", "activations") == set(everything) - weights
    assert observed("--observe", "image") == {"image"}
    assert observed("--observe", "image", "--observe", "prob*") == {"image", "probabilities"}
    convolutions = {name for name in everything if name.startswith("conv")}
    assert convolutions and observed("--observe", "conv*") == convolutions
    profile(target, "--observe", "nothing*").refuses((2, 3), "nothing*")


def test_observer_kinds_record_their_statistics(path):
    target = path / "p.json"
    profile(target, "--kind", "histogram").expect(DONE)
    full = tensors_of(target)
    assert full["image"]["level"] == "histogram" and full["image"]["histogram"]
    profile(target, "--kind", "range").expect(DONE)
    for name, tensor in tensors_of(target).items():
        assert tensor["level"] in ("range", "integer"), name
        if tensor["level"] == "range":
            assert all(tensor[key] == full[name][key] for key in ("min", "max", "min_at", "zeros", "count")), name
    profile(target, "--kind", "minmax").expect(DONE)
    for name, tensor in tensors_of(target).items():
        assert tensor["level"] in ("minmax", "integer"), name
        if tensor["level"] == "minmax":
            assert all(tensor[key] == full[name][key] for key in ("min", "max", "min_at", "zeros", "count")), name
            assert tensor["sum"] is None and not tensor["histogram"]["bins"], name
    done = profile(target, "--kind", "print", "--observe", "image", "--limit", 3).expect(DONE)
    assert done.err.count("'image' float32") == 3 and "sample 2 " in done.err, done
    profile(target, "--kind", "guard").expect(DONE)


def nan_model(path):
    """y = log(x): a negative x gives NaN."""
    path.write_bytes(onnx.model([onnx.node("Log", ["x"], ["y"], "log"), onnx.node("Relu", ["y"], ["z"])],
                                [onnx.value("x", ["N", 3])], [onnx.value("z", ["N", 3])]))
    data = path.with_suffix(".npy")
    data.write_bytes(npy_bytes([4, 3], [1, 2, 3, 4, 5, 6, 0, 8, -9, 10, -11, 12]))
    return data


def test_nan_is_recorded_or_stops_the_run(path):
    model, target = path / "log.onnx", path / "p.json"
    data = nan_model(model)
    done = profile(target, data=data, model=model).expect(DONE, "2 NaN", "sample 2")
    y = tensors_of(target)["y"]
    assert (y["nan"], y["neginf"], y["count"]) == (2, 1, 12)
    assert y["first_nonfinite"] == {"sample": 2, "index": 0}
    assert y["min"] == 0 and 2.4 < y["max"] < 2.5
    profile(target, "--nan", "record", data=data, model=model).expect(DONE)
    target.unlink()
    for words in (["--nan=fail"], ["--nan", "fail"], ["--kind", "guard"]):
        done = profile(target, *words, "--quiet", data=data, model=model)
        done.refuses(ANSWER_NO, "'y'", "NaN", "sample 2")
        assert files(path) == ["log.npy", "log.onnx"], "a stopped run wrote something"
    profile(target, "--nan=fail").expect(DONE)


def test_killed_run_leaves_no_partial_output(path):
    target = path / "p.json"
    words = [PROGRAM, "profile", DIGITS, "--data", PICTURES, "--threads", "1", "-o", target]
    for delay in (0.005, 0.02, 0.05, 0.1, 0.2):
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if target.exists():
            json.loads(target.read_text())
            target.unlink()


# ---- show ----

def test_show_prints_a_table_a_value_or_json(path):
    source = path / "p.json"
    profile(source).expect(DONE)
    names = list(tensors_of(source))
    table = tidemark("show", source, "--wide").expect(DONE, "image", "min", "max", "histogram")
    assert not table.err and "\033" not in table.out
    assert len(table.out.splitlines()) == len(names) + 2
    one = tidemark("show", source, "image").expect(DONE, "p0", "sample", "fingerprint", "99.99")
    assert tidemark("show", source, "p0").out == one.out
    two = tidemark("show", source, "conv*").expect(DONE)
    assert len(two.out.splitlines()) > 3 and "image" not in two.out
    everything = json.loads(tidemark("show", source, "--json").expect(DONE).out)
    assert [value["name"] for value in everything] == names
    value, = json.loads(tidemark("show", source, "image", "--json").out)
    assert (value["id"], value["min"], value["max"], value["count"]) == ("p0", 0, 16, 20 * 64)
    tidemark("show", source, "nothing").refuses(3, "nothing")
    if HAVE_HDF5:
        profile(path / "p.h5").expect(DONE)
        assert tidemark("show", path / "p.h5", "--wide").out == table.out
        assert tidemark("show", path / "p.h5", "image").out == one.out


def test_unwritable_standard_output_is_reported(path):
    profile(path / "p.json").expect(DONE)
    for words in (["show", path / "p.json"], ["graph", DIGITS, "--json"], ["graph", DIGITS]):
        with open("/dev/full", "w") as full:
            done = tidemark(*words, stdout=full).expect(MACHINE, "standard output")
        done.says_one_line()


# ---- graph, instrument ----

def test_graph_prints_text_dot_operators_or_json():
    text = tidemark("graph", DIGITS).expect(DONE, "Conv", "BatchNormalization", "@p0")
    assert not text.err
    dot = tidemark("graph", DIGITS, "--dot").expect(DONE).out
    assert dot.startswith("digraph") and dot.rstrip().endswith("}")
    ops = tidemark("graph", DIGITS, "--ops").expect(DONE, "0 unsupported").out
    assert any(line.split()[:1] == ["Conv"] and "2" in line.split() for line in ops.splitlines()), ops
    graph = json.loads(tidemark("graph", DIGITS, "--json").expect(DONE).out)
    ids = [value["id"] for value in graph["values"]]
    assert sorted(ids) == sorted(f"p{i}" for i in range(len(ids))), "IDs are dense"
    used = {i for node in graph["nodes"] for i in node["inputs"] + node["outputs"] if i}
    assert used <= set(ids) and set(graph["inputs"] + graph["outputs"]) <= set(ids)
    assert next(v for v in graph["values"] if v["name"] == "image")["shape"] == ["N", 1, 8, 8]


def test_graph_marks_the_nodes_of_patterns(path):
    profile(path / "p.json").expect(DONE)
    table = tidemark("show", path / "p.json", "--patterns").expect(DONE).out
    assert tidemark("graph", DIGITS, "--patterns").expect(DONE, "input-norm", "softmax").out == table
    rows = json.loads(tidemark("graph", DIGITS, "--patterns", "--json").expect(DONE).out)
    assert rows == json.loads(tidemark("show", path / "p.json", "--patterns", "--json").expect(DONE).out) and len(rows) == 2
    plain = tidemark("graph", DIGITS, "--dot").expect(DONE).out.splitlines()
    drawn = tidemark("graph", DIGITS, "--dot", "--patterns").expect(DONE).out.splitlines()
    marked = [line for line in drawn if line not in plain]
    assert len(drawn) == len(plain) and len(marked) == 2, marked
    for line, row in zip(marked, rows):
        assert f"\\n{row['node']}\\n{row['pattern']} {row['occurrence']}\", style=filled" in line, line
    tidemark("graph", DIGITS, "--patterns", "--ops").refuses(WRONG_CALL, "--patterns goes with")


def test_graph_and_instrument_accept_unknown_operators(path):
    model = path / "m.onnx"
    model.write_bytes(onnx.model(
        [onnx.node("Relu", ["x"], ["a"]), onnx.node("Mystery", ["a"], ["y"], "odd", "com.example")],
        [onnx.value("x", [2])], [onnx.value("y", [2])], opsets=[("", 17), ("com.example", 1)]))
    tidemark("graph", model, "--ops").expect(DONE, "com.example::Mystery", "1 unsupported")
    graph = json.loads(tidemark("graph", model, "--json").expect(DONE).out)
    assert [node["supported"] for node in graph["nodes"]] == [True, False]
    tidemark("instrument", model, "-o", path / "i.onnx").expect(DONE, "observers")
    tidemark("graph", path / "i.onnx", "--ops").expect(DONE, "EdgeObserver", "1 unsupported")


def test_refused_operators_come_with_a_remedy_where_there_is_one(path):
    model = path / "m.onnx"
    for domain, op, remedy in (("com.microsoft.nchwc", "ReorderInput", "ORT_ENABLE_EXTENDED"),
                               ("com.microsoft", "BeamSearch", "profile the decoder"), ("com.microsoft", "Nothing", None)):
        model.write_bytes(onnx.model([onnx.node(op, ["x"], ["y"], "n", domain)], [onnx.value("x", [2])], [onnx.value("y", [2])],
                                     opsets=[("", 17), (domain, 1)]))
        refused = tidemark("profile", model, "--data", path / "none.npy", "-o", path / "p.json")
        refused.refuses(BAD_INPUT, f"{domain}::{op} (operator set 1)", *([remedy] if remedy else []))
        assert remedy or refused.err.endswith("Nothing 'n'\n"), refused.err


def test_instrument_writes_a_model_that_is_profiled_like_the_original(path):
    done = tidemark("instrument", DIGITS, "-o", path / "i.onnx").expect(DONE, "observers in")
    assert not done.out and files(path) == ["i.onnx"]
    values = json.loads(tidemark("graph", DIGITS, "--json").out)["values"]
    assert f"{len(values)} observers" in done.err, done
    ops = tidemark("graph", path / "i.onnx", "--ops").expect(DONE, "EdgeObserver", "0 unsupported").out
    row = next(line for line in ops.splitlines() if "EdgeObserver" in line)
    assert str(len(values)) in row.split(), row
    for model, name in ((DIGITS, "a.npz"), (path / "i.onnx", "b.npz")):
        tidemark("run", model, "--data", PICTURES, "--limit", 30, "-o", path / name).expect(DONE)
    assert (path / "a.npz").read_bytes() == (path / "b.npz").read_bytes()
    few = tidemark("instrument", DIGITS, "--observe", "image", "--kind", "range", "-o", path / "f.onnx")
    few.expect(DONE, "1 observers")
    tidemark("instrument", DIGITS, "--kind", "median", "-o", path / "x.onnx").refuses(WRONG_CALL, "median")
    tidemark("instrument", DIGITS, "--observe", "nothing*", "-o", path / "x.onnx").refuses((2, 3), "nothing*")
    assert "x.onnx" not in files(path)


# ---- run, verify ----

def test_run_writes_arrays(path):
    tidemark("run", DIGITS, "--data", PICTURES, "-o", path / "all.npz").expect(DONE, "wrote")
    with zipfile.ZipFile(path / "all.npz") as archive:
        assert archive.testzip() is None and archive.namelist() == ["probabilities.npy"]
        kind, shape, data = read_npy(archive.read("probabilities.npy"))
    assert (kind, shape, len(data)) == ("<f4", (1797, 10), 1797 * 10 * 4)
    tidemark("run", DIGITS, "--data", PICTURES, "--limit", 7, "-o", path / "few.npy").expect(DONE)
    kind, shape, few = read_npy((path / "few.npy").read_bytes())
    assert (kind, shape) == ("<f4", (7, 10)) and few == data[:len(few)]
    tidemark("run", DIGITS, "--data", PICTURES, "--limit", 2, "--values", "conv*", "--values", "image", "-o",
             path / "some.npz").expect(DONE)
    with zipfile.ZipFile(path / "some.npz") as archive:
        names = archive.namelist()
        assert "image.npy" in names and all(n == "image.npy" or n.startswith("conv") for n in names), names
        assert read_npy(archive.read("image.npy"))[2] == read_npy(PICTURES.read_bytes())[2][:2 * 64 * 4]
    tidemark("run", DIGITS, "--data", PICTURES, "--values", "nothing", "-o", path / "none.npz").refuses(3, "nothing")
    # before the data are read
    tidemark("run", DIGITS, "--data", path, "--values", "*", "-o", path / "all.npy").refuses(2, "a .npy file holds one array")
    assert files(path) == ["all.npz", "few.npy", "some.npz"]


def make_test_set(path, wrong=0.0):
    """input_0.pb and output_0.pb of the first picture, the output moved by `wrong`."""
    path.mkdir()
    picture = struct.unpack("<64f", read_npy(PICTURES.read_bytes())[2][:64 * 4])
    target = path / "out.npy"
    tidemark("run", DIGITS, "--data", PICTURES, "--limit", 1, "-o", target).expect(DONE)
    answer = list(struct.unpack("<10f", read_npy(target.read_bytes())[2]))
    target.unlink()
    answer[3] += wrong
    (path / "input_0.pb").write_bytes(onnx.tensor("image", [1, 1, 8, 8], picture))
    (path / "output_0.pb").write_bytes(onnx.tensor("probabilities", [1, 10], answer))


def test_verify_compares_test_sets(path):
    good, bad, empty = path / "test_data_set_0", path / "bad", path / "empty"
    make_test_set(good)
    make_test_set(bad, wrong=0.5)
    empty.mkdir()
    done = tidemark("verify", DIGITS, good).expect(DONE, "probabilities", "ok", "1 outputs compared, 0 differ")
    assert "ok" in done.out and "ok" not in done.err
    tidemark("verify", DIGITS, path).expect(DONE, "1 outputs compared")
    done = tidemark("verify", DIGITS, bad).expect(ANSWER_NO, "probabilities", "element 3")
    assert "element 3" in done.out
    tidemark("verify", DIGITS, bad, "--atol", "1").expect(DONE)
    tidemark("verify", DIGITS, good, bad).expect(ANSWER_NO, "2 outputs compared, 1 differ")
    done = tidemark("verify", DIGITS, good, bad, "--quiet")
    assert (done.status, done.err, done.out) == (ANSWER_NO, "", ""), done
    tidemark("verify", DIGITS, empty).refuses(3, "empty")
    tidemark("verify", DIGITS, path / "absent").refuses(3, "absent")


main()
