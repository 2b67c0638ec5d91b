# SPDX-License-Identifier: Apache-2.0
"""`tidemark export`: encodings become other programs' files; what could not be written is told."""
import json
import shutil

from cli import ANSWER_NO, BAD_INPUT, DIGITS, DONE, PICTURES, SOURCE, WRONG_CALL, files, folder, main, tidemark


def encodings_of(path, profile, **changes):
    """Encodings by hand: every activation uint8 [0, 255 / 128], every weight int8 by the tensor."""
    entries = []
    for tensor in profile["tensors"]:
        if tensor["dtype"] != "float32":
            continue
        weight = tensor["kind"] == "weight"
        entries.append({"id": tensor["id"], "fingerprint": tensor["fingerprint"], "name": tensor["name"],
                        "role": "weight" if weight else "activation", "dtype": "int8" if weight else "uint8",
                        "scheme": "symmetric" if weight else "asymmetric", "scale": [1 / 128], "zero_point": [0]})
    model = {key: profile["model"][key] for key in ("file", "sha256", "format", "graph_fingerprint")}
    document = {"format": "tidemark-encodings", "version": {"major": 1, "minor": 0},
                "producer": {"name": "test", "version": "0"}, "model": model, "settings": {}, "samples": 1,
                "rounding": "single_half_up", "pow2_requant": False, "encodings": entries, "left": [], "requants": []}
    document.update(changes)
    path.write_text(json.dumps(document))
    return document


def start(path):
    tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 2, "--quiet", "-o", path / "p.json").expect(DONE)
    return encodings_of(path / "enc.json", json.loads((path / "p.json").read_text()))


def formats():
    """Name and line of each."""
    return {line.split()[0]: line for line in tidemark("export", "--to", "help").expect(DONE).out.splitlines()}


def test_help_lists_the_formats_with_their_readers():
    listed = formats()
    assert {"aimet", "csv", "litert", "tensorrt-cache"} <= set(listed)
    assert all(len(line.split()) > 2 for line in listed.values())
    assert "version=0.6.1|1.0.0|2.0.0" in listed["aimet"]


def test_wrong_calls_and_bad_files():
    with folder() as path:
        start(path)
        out = ["-o", path / "out"]
        tidemark("export", path / "enc.json", *out).refuses(WRONG_CALL, "--to")
        tidemark("export", path / "enc.json", "--to", "csv").refuses(WRONG_CALL, "-o")
        tidemark("export", path / "enc.json", "--to", "caffe", *out).refuses(WRONG_CALL, "caffe", "tensorrt-cache")
        tidemark("export", path / "enc.json", "--to", "csv", "--keep-names", *out).refuses(WRONG_CALL, "--names")
        tidemark("export", path / "enc.json", "--to", "csv", "--set", "a=1", *out).refuses(WRONG_CALL, "a=1", "csv")
        tidemark("export", path / "enc.json", "--to", "aimet", "--set", "version", *out).refuses(WRONG_CALL, "version=")
        tidemark("export", path / "enc.json", "--to", "aimet", "--set", "version=9", *out).refuses(WRONG_CALL, "1.0.0")
        tidemark("export", path / "p.json", "--to", "csv", *out).refuses(BAD_INPUT, "p.json")
        (path / "map.json").write_text('{"p0": 1}')
        tidemark("export", path / "enc.json", "--to", "litert", "--names", path / "map.json", *out).refuses(
            BAD_INPUT, "map.json", "p0")
        assert "out" not in files(path)


def test_what_could_not_be_named_is_told():
    with folder() as path:
        document = start(path)
        activations = [e for e in document["encodings"] if e["role"] == "activation"]
        first, others = activations[0], activations[1:]
        (path / "map.json").write_text(json.dumps({first["name"]: "their name", "nobody": "x"}))
        words = ["export", path / "enc.json", "--to", "tensorrt-ranges", "--names", path / "map.json", "-o", path / "out"]
        done = tidemark(*words).expect(DONE, f"{len(others)} in all were left out", "nobody", others[0]["id"])
        assert (path / "out").read_text() == "their name: 1.9921875\n"
        told = json.loads(tidemark(*words, "--json", "--quiet").expect(DONE).out)
        assert [skip["id"] for skip in told["skipped"]] == [e["id"] for e in others]
        assert all("name map" in skip["why"] for skip in told["skipped"])
        tidemark(*words, "--keep-names").expect(DONE)
        assert [line.split(": ")[0] for line in (path / "out").read_text().splitlines()] == [
            "their name", *(e["name"] for e in others)]
        assert "weights" in done.err


def test_nothing_written_is_an_answer():
    with folder() as path:
        start(path)
        (path / "map.json").write_text("{}")
        tidemark("export", path / "enc.json", "--to", "litert", "--names", path / "map.json", "-o", path / "out", "--quiet").refuses(
            ANSWER_NO, "nothing was")
        assert "out" not in files(path)


def test_the_model_must_be_the_one_of_the_encodings():
    with folder() as path:
        document = start(path)
        words = ["export", path / "enc.json", "--to", "tvm", "-o", path / "out"]
        tidemark(*words, "--model", DIGITS).expect(DONE)
        kinds = {e["name"]: e["kind"] for e in json.loads((path / "out").read_text())["edges"]}
        assert list(kinds.values()).count("input") == 1 and "weight" in kinds.values()
        tidemark("instrument", DIGITS, "-o", path / "observed.onnx", "--quiet").expect(DONE)
        tidemark(*words, "--model", path / "observed.onnx").expect(DONE, "not the file that was profiled")
        document["encodings"][3]["fingerprint"] = "0123456789abcdef"
        (path / "enc.json").write_text(json.dumps(document))
        tidemark(*words, "--model", DIGITS).refuses(BAD_INPUT, document["encodings"][3]["id"], "0123456789abcdef")


def test_every_format_takes_the_golden_encodings():
    """Entries for some readers, per channel, of 4 and 32 bits and of float8: written, or told."""
    with folder() as path:
        shutil.copy(SOURCE / "tests" / "golden" / "encodings-1.0.json", path / "enc.json")
        for name, line in formats().items():
            if "needs --" in line:
                continue
            done = tidemark("export", path / "enc.json", "--to", name, "-o", path / name, "--json")
            assert done.status in (DONE, ANSWER_NO), done
            assert (name in files(path)) == (done.status == DONE), done
            json.loads(done.out)


main(globals())
