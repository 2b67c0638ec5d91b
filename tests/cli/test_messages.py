# SPDX-License-Identifier: Apache-2.0
"""Messages about missing files, files of another kind and unknown names, for every command."""
import contextlib
import functools
import json
import shutil

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, WRONG_CALL, folder, main, needs, npy_bytes, subset, tidemark
from png import png

IS = {  # what a file of the other kinds is called
    "m.onnx": "is an ONNX model", "m.relay": "is a Relay module", "x.npy": "is a NumPy array", "x.npz": "is a .npz",
    "p.json": "is a profile", "e.json": "is a file of encodings", "l.json": "is a lineage", "x.png": "is an image",
}
MODELS, RANGES = {"m.onnx", "m.relay"}, {"p.json", "e.json", "m.onnx"}


PICTURE = png(8, 8, [bytes(8)] * 8)


@contextlib.contextmanager
def inputs():
    with folder() as here:
        shutil.copy(DIGITS, here / "m.onnx")
        shutil.copy(PICTURES, here / "x.npy")
        tidemark("profile", "m.onnx", "--data", "x.npy", "--limit", 8, "-o", "p.json", cwd=here).expect(DONE)
        tidemark("calibrate", "p.json", "-o", "e.json", cwd=here).expect(DONE)
        tidemark("transform", "m.onnx", "--passes", "all", "-o", "t.onnx", "--lineage", "l.json", cwd=here).expect(DONE)
        tidemark("run", "m.onnx", "--data", "x.npy", "--limit", 2, "-o", "x.npz", cwd=here).expect(DONE)
        (here / "m.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 3), float32]) {\n  nn.relu(%x)\n}\n')
        (here / "x.png").write_bytes(PICTURE)
        yield here


def slots():
    """Words with FILE where a file is read, and the files that may stand there; every verb that reads files."""
    data = ["--data", "x.npy", "--limit", "2"]
    models = [["profile", "FILE", *data, "-o", "new.json"], ["instrument", "FILE", "-o", "new.onnx"], ["graph", "FILE"],
              ["transform", "FILE", "--passes", "all", "-o", "new.onnx"], ["run", "FILE", *data, "-o", "new.npz"],
              ["simulate", "FILE", "e.json", *data], ["verify", "FILE", "sets"], ["bench", "FILE", *data],
              ["link", "p.json", "FILE", "-o", "new.json"], ["export", "e.json", "--model", "FILE", "--to", "qdq", "-o", "new.onnx"]]
    profiles = [["show", "FILE"], ["check", "FILE"], ["calibrate", "FILE", "-o", "new.json"], ["merge", "FILE", "-o", "new.json"],
                ["report", "FILE", "-o", "new.html"], ["report", "p.json", "--since", "FILE", "-o", "new.html"],
                ["link", "FILE", "m.onnx", "-o", "new.json"],
                ["simulate", "m.onnx", "e.json", *data, "--search", "--profile", "FILE", "-o", "new.json"]]
    encodings = [["simulate", "m.onnx", "FILE", *data], ["export", "FILE", "--to", "csv", "-o", "new.csv"],
                 ["report", "p.json", "--encodings", "FILE", "-o", "new.html"]]
    lineages = [["graph", "m.onnx", "--lineage", "FILE"], ["link", "p.json", "t.onnx", "--lineage", "FILE", "-o", "new.json"],
                ["check", "p.json", "--against", "e.json", "--lineage", "FILE"]]
    sources = [["profile", "m.onnx", "--data", "FILE", "-o", "new.json"], ["run", "m.onnx", "--data", "FILE", "-o", "new.npz"],
               ["simulate", "m.onnx", "e.json", "--data", "FILE"], ["bench", "m.onnx", "--data", "FILE"]]
    found = [(words, MODELS) for words in models] + [(words, {"p.json"}) for words in profiles] + \
        [(words, {"e.json"}) for words in encodings] + [(words, {"l.json"}) for words in lineages] + \
        [(words, {"x.npy", "x.npz", "x.png"}) for words in sources]
    return found + [(["diff", "FILE", "p.json"], RANGES), (["diff", "p.json", "FILE"], RANGES),
                    (["calibrate", "p.json", "--config", "FILE", "-o", "new.json"], {"p.json", "e.json", "l.json"}),
                    *[(["graph", "m.relay", "--params", "FILE"], set())] * ("relay" in FEATURES)]


def said_of(words, name, here):
    before = sorted(here.iterdir())
    done = tidemark(*(name if word == "FILE" else word for word in words), cwd=here).refuses((BAD_INPUT, WRONG_CALL))
    assert sorted(here.iterdir()) == before, f"something is left: {done}"
    assert done.err.count(name) == 1, f"a file is named once: {done}"
    return done


def test_outputs_are_not_named_as_another_format():
    """Every verb that writes; what is no name of a format is taken."""
    search = ["simulate", "m.onnx", "e.json", "--data", "x.npy", "--limit", "2", "--search", "--budget", "1", "--profile", "p.json"]
    more = [([*search, "-o", "new.json", "--write-config", "new.yaml"], ["yaml", "json", "yml"]),
            (["link", "p.json", "m.onnx", "-o", "l.h5", "--report", "new.json"], ["json"]),
            (["quantize", "m.onnx", "--data", "x.npy", "-o", "q.onnx", "--encodings", "new.json"], ["json"])]
    for words, good in slots():
        if words[-1].startswith("new.") and "--config" not in words:
            own = words[-1].removeprefix("new.")
            again = {"json": ["h5"], "npz": ["npy"], "html": ["htm"], "onnx": ["relay"] if words[0] == "transform" else []}
            more.append(([sorted(good)[0] if word == "FILE" else word for word in words], [own, *again.get(own, [])]))
    with inputs() as here:
        before = {path.name for path in here.iterdir()}
        for words, endings in more:
            for ending in {"pdf", "onnx", "JSON", "csv"} - {e for ending in endings for e in (ending, ending.upper())}:
                tidemark(*words[:-1], f"new.{ending}", cwd=here).refuses(WRONG_CALL, f"new.{ending}: ")
            assert {path.name for path in here.iterdir()} <= before, words
        for name in ("new.2026", "new", ".pdf"):
            tidemark("report", "p.json", "-o", name, cwd=here).expect(DONE)
            assert (here / name).read_bytes().startswith(b"<!"), name


def test_missing_files_are_named_once():
    with inputs() as here:
        for words, _ in slots():
            for name in subset(("nope.json", "nope.onnx", "folder/nope.npy")):
                done = said_of(words, name, here)
                assert done.status == BAD_INPUT and "No such file" in done.err, done


def test_files_of_another_kind_are_identified():
    with inputs() as here:
        for words, fitting in slots():
            for name in subset(sorted(set(IS) - set(fitting)), 4):
                done = said_of(words, name, here)
                assert IS[name] in done.err, done
                assert "tidemark " in done.err[9:] or "--" in done.err or "there are" in done.err, f"and what now? {done}"


def test_damaged_files_keep_their_kind():
    with inputs() as here:
        for name in IS:
            whole = (here / name).read_bytes()
            (here / f"cut-{name}").write_bytes(whole[:len(whole) * 2 // 3])
        for words, fitting in slots():
            for name in fitting if "--config" not in words else ():
                assert IS[name] not in said_of(words, f"cut-{name}", here).err, (words, name)


def test_files_that_a_shell_lists_are_no_data_of_one_input():
    with inputs() as here:
        (here / "y.png").write_bytes(PICTURE)
        if "images" in FEATURES:
            tidemark("profile", "m.onnx", "--data", "x.png", "y.png", "-o", "q.json", cwd=here).refuses(
                WRONG_CALL, "input 'image' has two sources: x.png and y.png", "a folder", ".txt")
        tidemark("profile", "m.onnx", "--data", "x.npy", "--data", "x.npy", "-o", "q.json", cwd=here).refuses(
            WRONG_CALL, "input 'image' has two sources: x.npy and x.npy")
        (here / "labels.json").write_text("[1, 2]")
        tidemark("simulate", "m.onnx", "e.json", "--data", "x.npy", "--labels", "labels.json", cwd=here).refuses(
            BAD_INPUT, "'labels.json' is neither", ".npy")


def test_models_of_other_tools_are_identified():
    """What people have who have no ONNX model yet, and names of such that no output has."""
    files = {"m.tflite": b"\x1c\0\0\0TFL3" + bytes(64), "m.pb": b"\x0a\x10\x0a\x05input\x12\x0bPlaceholder",
             "saved_model.pb": b"\x08\x01\x12\x05\x0a\x03xyz", "m.safetensors": b"\x08\0\0\0\0\0\0\0{\"w\":{}}",
             "m.gguf": b"GGUF\x03\0\0\0", "m.pkl": b"\x80\x04\x95}", "m.pt": b"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9",
             "m.xml": b'<?xml version="1.0"?>\n<net name="m" version="11">'}
    with inputs() as here:
        for name, content in files.items():
            (here / name).write_bytes(content)
            done = tidemark("graph", name, cwd=here)
            done.refuses(BAD_INPUT, f"{name}: is a", ", not an ONNX model; ")
            own = name.rpartition(".")[2]
            for words in (["export", "e.json", "--to", "litert"], ["export", "e.json", "--to", "qdq", "--model", "m.onnx"],
                          ["quantize", "m.onnx", "--data", "x.npy", "--target", "litert"], ["report", "p.json"]):
                tidemark(*words, "-o", f"new.{own}", cwd=here).refuses(WRONG_CALL, f"new.{own}: ")
                assert not (here / f"new.{own}").exists(), words


def test_names_of_exported_files_are_those_of_the_format():
    formats = [line.split()[0] for line in tidemark("export", "--to", "help").expect(DONE).out.splitlines() if line[0] != " "]
    assert "qdq" in formats and len(formats) > 15
    with inputs() as here:
        for name in formats:
            more = ["--model", "m.onnx", "--template", "m.relay"]
            tidemark("export", "e.json", "--to", name, *more, "-o", "new.png", cwd=here).refuses(WRONG_CALL, "new.png: ")
            assert not (here / "new.png").exists(), name


def test_misspelled_names_get_a_suggestion():
    with inputs() as here:
        (here / "op.json").write_text(json.dumps({"rules": [{"match": {"op": "Cnov"}, "dtype": "int8"}]}))
        (here / "key.json").write_text(json.dumps({"rules": [{"mtch": {"op": "Conv"}, "dtype": "int8"}]}))
        (here / "type.json").write_text(json.dumps({"rules": [{"match": {"op": "Conv"}, "dtype": "unt8"}]}))
        (here / "method.json").write_text(json.dumps({"defaults": {"method": "entrpoy"}}))
        calibrate, run = ["calibrate", "p.json", "-o", "new.json"], ["--data", "x.npy", "--limit", "2"]
        for words, meant in [
                (["profil"], "profile"), (["help", "calbrate"], "calibrate"), (["show", "p.json", "--filtr", "a"], "--filter"),
                (["show", "p.json", "imge"], "image"), (["show", "p.json", "--sort", "rnage"], "range"),
                (["show", "p.json", "--filter", "knd=input"], "kind"), ([*calibrate, "--method", "entrop"], "entropy"),
                ([*calibrate, "--dtype", "unt8"], "uint8"), ([*calibrate, "--weights-dtype", "in8"], "int8"),
                ([*calibrate, "--config", "key.json"], "match"), ([*calibrate, "--config", "type.json"], "uint8"),
                ([*calibrate, "--config", "method.json"], "entropy"),
                (["transform", "m.onnx", "--passes", "fold-const", "-o", "new.onnx"], "fold-constant"),
                (["export", "e.json", "--to", "ort-cahce", "-o", "new"], "ort-cache"),
                (["diff", "p.json", "e.json", "--format", "encoding"], "encodings"),
                (["instrument", "m.onnx", "--kind", "histgram", "-o", "new.onnx"], "histogram"),
                (["instrument", "m.onnx", "--observe", "relu1_ou", "-o", "new.onnx"], "relu1_out"),
                (["run", "m.onnx", *run, "--values", "relu1", "-o", "new.npz"], "relu1_out"),
                (["profile", "m.onnx", "--data", "imag=x.npy", "-o", "new.json"], "image"),
                (["profile", "m.onnx", *run, "--dim", "n=3", "-o", "new.json"], "N")]:
            done = tidemark(*words, cwd=here).refuses((BAD_INPUT, WRONG_CALL), f"did you mean '{meant}'?")
        done = tidemark(*calibrate, "--config", "op.json", cwd=here).expect(DONE, "rules[0] matches nothing", "did you mean 'Conv'?")
        assert "did you mean" not in tidemark("quantize").refuses(WRONG_CALL).err


def test_separate_number_after_an_optional_value_is_refused():
    for words in (["simulate", DIGITS, "e.json", "--rank", "10"], ["show", "p.json", "--outliers", "10"]):
        tidemark(*words).refuses(WRONG_CALL, f"{words[-2]}={words[-1]}")


def test_unknown_and_missing_inputs_are_reported():
    with inputs() as here:
        profile = functools.partial(tidemark, "profile", cwd=here)
        images = "image' float32[?,1,8,8]"
        profile("m.onnx", "--data", "image2=x.npy", "-o", "new.json").refuses(WRONG_CALL, "no input 'image2'", images)
        profile("m.onnx", "--data", "image=x.npy", "--data", "x.npy", "-o", "new.json").refuses(WRONG_CALL, "input 'image' has two sources")
        (here / "a=b.npy").write_bytes((here / "x.npy").read_bytes())
        profile("m.onnx", "--data", "a=b.npy", "--limit", 2, "-o", "new.json").expect(DONE)  # a name of a file
        (here / "two.onnx").write_bytes(onnx.model([onnx.node("Add", ["a", "b"], ["y"])], [onnx.value(n, ["N", 3]) for n in "ab"],
                                                   [onnx.value("y", ["N", 3])]))
        (here / "a.npy").write_bytes(npy_bytes([2, 3]))
        profile("two.onnx", "--data", "a=a.npy", "-o", "new.json").refuses(WRONG_CALL, "'b' has no data", "'a' float32[?,3]")
        (here / "two.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 3), float32], %w: Tensor[(2, 3), float32]) {\n'
                                        '  add(%x, %w)\n}\n')
        for data in ["a.npy", "x=a.npy"] if "relay" in FEATURES else []:
            profile("two.relay", "--data", data, "-o", "new.json").refuses(WRONG_CALL, "'w'", "--params")


def test_shapes_of_images_get_a_hint():
    with inputs() as here:
        profile = ["profile", "m.onnx", "-o", "new.json", "--data"]
        for shape, hint in (([2, 8, 8, 1], "layout=nchw"), ([2, 1, 10, 12], "--image resize=8x8"), ([2, 10, 12, 1], ""), ([2, 3, 10, 12], "color=grey,resize=8x8"), ([2, 5, 8, 8], "")):
            (here / "y.npy").write_bytes(npy_bytes(shape))
            done = tidemark(*profile, "y.npy", cwd=here).refuses(BAD_INPUT, "[?,1,8,8]", hint)
            assert hint or "; " not in done.err, done
        (here / "last.onnx").write_bytes(onnx.model([onnx.node("Relu", ["x"], ["y"])], [onnx.value("x", ["N", 6, 5, 3])],
                                                    [onnx.value("y", ["N", 6, 5, 3])]))
        for shape, hint in (([2, 3, 6, 5], "layout=nhwc"), ([2, 7, 7, 3], "resize=5x6")):
            (here / "y.npy").write_bytes(npy_bytes(shape))
            tidemark("profile", "last.onnx", "-o", "new.json", "--data", "y.npy", cwd=here).refuses(BAD_INPUT, hint)


def test_values_are_named_as_in_the_model(here):
    (here / "x.npy").write_bytes(npy_bytes([2, 4]))
    nodes = [onnx.node("Neg", ["x"], ["y"]), onnx.node("Reshape", ["y", "to"], ["z"])]
    to = onnx.tensor("to", [2], [3, 3], onnx.INT64)
    for output, said in ((onnx.value("z", [3, 3]), "Reshape #1 (makes 'z')"),
                         (onnx.value("y", ["N", 4], onnx.INT64), "'y' is declared as int64")):
        (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", ["N", 4])], [onnx.value("z", [3, 3])] * ("z'" not in said)
                                                 + [output], [to]))
        for words in (["profile", "m.onnx", "-o", "p.json"], ["run", "m.onnx", "-o", "y.npz"]):
            done = tidemark(*words, "--data", "x.npy", cwd=here).refuses(BAD_INPUT, said)
            assert "observed" not in done.err, done


def test_skipped_samples_are_reported():
    needs("images")
    with inputs() as here:
        (here / "photos").mkdir()
        for i in range(9):
            (here / "photos" / f"{i}.png").write_bytes(PICTURE if i < 4 else PICTURE[:40])
        more = ["--data", "photos", "--image", "color=grey", "--on-bad-sample", "skip"]
        for words in (["profile", "m.onnx", "-o", "new.json"], ["run", "m.onnx", "-o", "new.npz"], ["simulate", "m.onnx", "e.json"],
                      ["simulate", "m.onnx", "e.json", "--rank", "--limit", 9], ["bench", "m.onnx", "--repeat", 2, "--seconds", 0.01]):
            done = tidemark(*words, *more, cwd=here).expect(DONE, "5 samples could not be read and were passed over")
            told = [line for line in done.err.splitlines() if ".png" in line]
            assert len(told) == 3 and "sample 4" in told[0] and "4.png" in told[0], done
            assert not tidemark(*words, *more, "-q", cwd=here).expect(DONE).err


main()
