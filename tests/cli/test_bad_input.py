# SPDX-License-Identifier: Apache-2.0
"""Errors of the input or the machine are reported in one line, with the place; no partial file is left."""
import os
import resource
import struct
import zipfile

import onnx_bytes as onnx
from cli import (BAD_INPUT, DIGITS, DONE, FEATURES, MACHINE, PICTURES, bounded, files, folder, main, npy_bytes,
                 other_user, small_disk, tidemark)

MODEL_BYTES = DIGITS.read_bytes()
FORMATS = ["json"] + (["h5"] if "hdf5" in FEATURES else [])
NODE, VALUE = onnx.node, onnx.value


class Case:
    """A folder with an input and an empty folder for outputs, which must stay empty."""

    def __enter__(self):
        self._folder = folder()
        self.path = self._folder.__enter__()
        self.out = self.path / "out"
        self.out.mkdir()
        return self

    def __exit__(self, *error):
        self._folder.__exit__(*error)

    def write(self, name, content):
        path = self.path / name
        path.write_bytes(content)
        return path

    def profile(self, model=DIGITS, data=PICTURES, *more, **options):
        words = ["profile", model, "--data", data, "--limit", 4, "--quiet", "-o", self.out / "p.json"]
        done = tidemark(*words, *more, **options)
        if done.status != DONE:
            assert files(self.out) == [], f"{files(self.out)} was left behind: {done}"
        return done


def refused(model, *texts, data=None):
    """`profile` refuses the bytes of a model, and its message has the file and every text; so does `run`."""
    with Case() as case:
        path = case.write("model.onnx", model)
        source = case.write("x.npy", npy_bytes([4, 3], [*range(12)]) if data is None else data)
        case.profile(path, source).refuses(BAD_INPUT, "model.onnx", *texts)
        tidemark("run", path, "--data", source, "-o", case.out / "r.npz").refuses(BAD_INPUT, "model.onnx", *texts)
        assert files(case.out) == []


def small(nodes, initializers=(), output="y", dtype=onnx.FLOAT, opsets=(("", 17),)):
    """A model from x, float [N, 3], to `output`."""
    return onnx.model(nodes, [VALUE("x", ["N", 3])], [VALUE(output, ["N", 3], dtype)], initializers, opsets)


# ---- files that are damaged; tests/mutate damages them at random ----

def test_truncated_models_are_refused():
    size = len(MODEL_BYTES)
    ends = sorted({0, 1, 2, 7, 100, 1000, size // 4, size // 2, size - 1000, size - 100, size - 10, size - 2, size - 1})
    with Case() as case:
        model = case.path / "model.onnx"
        for end in ends:
            model.write_bytes(MODEL_BYTES[:end])
            case.profile(model).refuses(BAD_INPUT, "model.onnx")
            tidemark("graph", model).refuses(BAD_INPUT, "model.onnx")
            tidemark("instrument", model, "-o", case.out / "i.onnx").refuses(BAD_INPUT, "model.onnx")
            assert files(case.out) == []


def test_truncated_profiles_are_refused(path):
    for form in FORMATS:
        source, broken = path / f"whole.{form}", path / f"p.{form}"
        tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 2, "--observe", "image", "-o", source).expect(DONE)
        original = source.read_bytes()
        for end in (0, 1, 100, len(original) // 2, len(original) - 3):
            broken.write_bytes(original[:end])
            tidemark("show", broken).refuses(BAD_INPUT, f"p.{form}")


def test_damaged_data_is_refused():
    whole = npy_bytes([5, 1, 8, 8])
    header = len(whole) - 5 * 64 * 4
    with Case() as case:
        for end in (0, 3, 6, 8, 9, 10, 40, header - 1, header, header + 1, header + 64 * 4, len(whole) - 1):
            case.profile(DIGITS, case.write("x.npy", whole[:end])).refuses(BAD_INPUT, "x.npy")
        for wrong in (whole[:6] + b"\x09" + whole[7:], b"PK" + whole, whole.replace(b"'shape'", b"'share'"),
                      whole.replace(b"<f4", b"<f9"), whole.replace(b"<f4", b"|O4"), whole.replace(b"(5,", b"(-,"),
                      whole.replace(b"(5, 1", b"(5e9"), whole.replace(b"{", b"[")):
            case.profile(DIGITS, case.write("x.npy", wrong)).refuses(BAD_INPUT, "x.npy")
        integers = case.write("x.npy", npy_bytes([3, 1, 8, 8], kind="<i8"))
        case.profile(DIGITS, integers).refuses(BAD_INPUT, "x.npy", "'image' wants float32", "int64")
        huge = npy_bytes([1]).replace(b"(1,)   ", b"(9223372036854775807, 1, 8, 8)"[:7])
        case.profile(DIGITS, case.write("x.npy", huge)).refuses(BAD_INPUT, "x.npy")
        archive = case.path / "x.npz"
        with zipfile.ZipFile(archive, "w") as z:
            z.writestr("image.npy", whole)
        content = archive.read_bytes()
        case.profile(DIGITS, archive).expect(DONE)
        (case.out / "p.json").unlink()
        for end in (0, 10, len(content) // 2, len(content) - 5):
            case.profile(DIGITS, case.write("x.npz", content[:end])).refuses(BAD_INPUT, "x.npz")
        flipped = bytearray(content)
        flipped[header + 400] ^= 0xff  # inside the member's data: the checksum must detect it
        case.profile(DIGITS, case.write("x.npz", bytes(flipped))).refuses(BAD_INPUT, "x.npz")


# ---- models that are wrong ----

def test_a_cycle_is_refused():
    nodes = [NODE("Add", ["x", "b"], ["a"], "first"), NODE("Relu", ["a"], ["b"], "second"), NODE("Neg", ["b"], ["y"])]
    refused(small(nodes), "cycle")


def test_undefined_value_is_refused():
    refused(small([NODE("Add", ["x", "absent_weight"], ["y"], "adder")]), "absent_weight", "adder")
    refused(small([NODE("Relu", ["x"], ["z"])]), "'y'")


def test_two_producers_of_one_value_are_refused():
    refused(small([NODE("Relu", ["x"], ["y"]), NODE("Neg", ["x"], ["y"])]), "'y'")


def test_unsupported_operators_are_all_named_in_one_line():
    nodes = [NODE("Relu", ["x"], ["a"], "fine"), NODE("Mystery", ["a"], ["b"], "odd1", "com.example"),
             NODE("Enigma", ["b"], ["c"], "odd2"), NODE("Mystery", ["c"], ["y"], "odd3", "com.example")]
    refused(small(nodes, opsets=[("", 17), ("com.example", 1)]), "Mystery", "Enigma", "odd1", "odd2", "odd3")


def test_unknown_operator_set_version_is_refused():
    refused(small([NODE("Relu", ["x"], ["y"])], opsets=[("", 999)]), "operator set 999")


def test_unknown_attribute_is_refused_in_every_domain():
    for op, domain in (("Relu", ""), ("Gelu", "com.microsoft"), ("Normalizer", "ai.onnx.ml")):
        opsets = [("", 17), ("com.microsoft", 1), ("ai.onnx.ml", 3)]
        refused(small([NODE(op, ["x"], ["y"], "act", domain, frobnicate=1)], opsets=opsets), "act", "frobnicate")


def test_wrong_declared_type_is_refused():
    refused(small([NODE("Relu", ["x"], ["y"], "act")], dtype=onnx.INT64), "act", "declared as int64", "float32")


def test_mismatched_types_are_refused():
    count = onnx.tensor("count", [3], [1, 2, 3], dtype=onnx.INT64)
    refused(small([NODE("Add", ["x", "count"], ["y"], "mixed")], [count]), "mixed")


def test_mismatched_shapes_are_refused():
    five = onnx.tensor("five", [5], [0.0] * 5)
    refused(small([NODE("Add", ["x", "five"], ["y"], "adder")], [five]), "adder", "5")
    weights = [onnx.tensor("a", [2, 3], [0.0] * 6), onnx.tensor("b", [4, 5], [0.0] * 20)]
    refused(small([NODE("MatMul", ["a", "b"], ["c"], "product"), NODE("Relu", ["x"], ["y"])], weights), "product")
    kernel = onnx.tensor("k", [2, 7, 3, 3], [0.0] * 126)
    image = onnx.model([NODE("Conv", ["x", "k"], ["y"], "conv")], [VALUE("x", ["N", 1, 8, 8])],
                       [VALUE("y", ["N", 2, 6, 6])], [kernel])
    refused(image, "conv", data=npy_bytes([4, 1, 8, 8]))


def test_a_model_without_outputs_cannot_run(path):
    model, data = path / "model.onnx", path / "x.npy"
    model.write_bytes(onnx.model([NODE("Relu", ["x"], ["y"])], [VALUE("x", ["N", 3])], []))
    data.write_bytes(npy_bytes([4, 3], [*range(12)]))
    tidemark("run", model, "--data", data, "-o", path / "y.npz").refuses(BAD_INPUT, "model.onnx", "has no outputs")
    tidemark("run", model, "--data", data, "-o", path / "y.npz", "--values", "y", "--quiet").expect(DONE)


def test_external_weights_are_read_from_the_folder_of_the_model_only():
    with Case() as case:
        weights = struct.pack("<3f", 1, 2, 3)
        case.write("secret.bin", weights)
        inside = case.path / "models"
        inside.mkdir()
        (inside / "weights.bin").write_bytes(weights)
        os.symlink(case.path / "secret.bin", inside / "link.bin")
        data = case.write("x.npy", npy_bytes([4, 3]))
        model = inside / "model.onnx"

        def stored(**external):
            tensor = onnx.tensor("w", [3], [], external=external)
            model.write_bytes(small([NODE("Add", ["x", "w"], ["y"])], [tensor]))
            return case.profile(model, data)
        stored(location="weights.bin").expect(DONE)
        (case.out / "p.json").unlink()
        for location in ("../secret.bin", str(case.path / "secret.bin"), "../models/../secret.bin", "link.bin", "", "."):
            stored(location=location).refuses(BAD_INPUT, "'w'")
        stored(location="absent.bin").refuses(BAD_INPUT, "absent.bin")
        for more in ({"offset": 1}, {"length": 8}, {"offset": -4}, {"offset": 1 << 62}, {"length": 1 << 62},
                     {"offset": "abc"}, {"offset": 8, "length": 12}):
            stored(location="weights.bin", **more).refuses(BAD_INPUT, "'w'")


def test_huge_sizes_are_refused():
    limits = bounded()
    big = onnx.tensor("shape", [2], [1 << 40, 1 << 40], dtype=onnx.INT64)
    with Case() as case:
        data = case.write("x.npy", npy_bytes([4, 3]))
        model = case.write("model.onnx", small([NODE("Expand", ["w", "shape"], ["y"], "grower")],
                                               [big, onnx.tensor("w", [1], [1.0])]))
        case.profile(model, data, **limits).refuses((BAD_INPUT, MACHINE), "grower")
        model = case.write("model.onnx", small([NODE("Relu", ["w"], ["y"])], [onnx.tensor("w", [1 << 40, 1 << 40], [])]))
        case.profile(model, data, **limits).refuses(BAD_INPUT, "'w'")


# ---- data that does not fit the model ----

def test_data_of_another_shape_or_type_is_refused():
    with Case() as case:
        def given(shape, kind="<f4", name="x.npy"):
            return case.profile(DIGITS, case.write(name, npy_bytes(shape, kind=kind)))
        for shape in ([4, 1, 8], [4], [], [4, 1, 8, 8, 1, 1]):
            given(shape).refuses(BAD_INPUT, "x.npy", "image", "rank")
        for shape in ([4, 1, 8, 9], [4, 2, 8, 8], [4, 1, 0, 8], [2, 4, 1, 8, 7]):
            given(shape).refuses(BAD_INPUT, "image", "8")
        given([0, 1, 8, 8]).refuses(BAD_INPUT, "x.npy", "no samples")
        given([4, 1, 8, 8], "<i8").refuses(BAD_INPUT, "image", "int64")
        given([4, 1, 8, 8], "|u1").refuses(BAD_INPUT, "image", "uint8")
        given([4, 1, 8, 8], "<f8").expect(DONE)


def test_incomplete_batches_are_counted():
    with Case() as case:
        model = case.write("model.onnx", onnx.model([NODE("Relu", ["x"], ["y"])], [VALUE("x", [3, 2])],
                                                    [VALUE("y", [3, 2])]))
        data = case.write("x.npy", npy_bytes([7, 2]))
        words = ["profile", model, "--data", data, "-o", case.out / "p.json"]
        tidemark(*words).expect(DONE, "1 samples left over")
        tidemark("show", case.out / "p.json").expect(DONE, "6 of 7 samples")
        (case.out / "p.json").unlink()
        case.profile(model, case.write("y.npy", npy_bytes([2, 2]))).refuses(BAD_INPUT, "y.npy", "2 samples", "3")


def test_inputs_with_different_numbers_of_samples_are_refused():
    with Case() as case:
        model = case.write("model.onnx", onnx.model([NODE("Add", ["a", "b"], ["y"])], [VALUE(n, ["N", 2]) for n in "ab"],
                                                    [VALUE("y", ["N", 2])]))
        a, b = case.write("a.npy", npy_bytes([4, 2])), case.write("b.npy", npy_bytes([5, 2]))
        case.profile(model, f"a={a}", "--data", f"b={b}").refuses(BAD_INPUT, "a.npy", "b.npy")
        case.profile(model, f"a={a}").refuses((2, 3), "'b'")


# ---- files that are not there, or not for us ----

def test_missing_files_and_folders_as_files_are_reported():
    with Case() as case:
        absent, directory = case.path / "absent.onnx", case.path / "folder.onnx"
        directory.mkdir()
        for model in (absent, directory, "/dev/null", "/dev/zero"):
            for words in (["graph", model], ["profile", model, "--data", PICTURES, "-o", case.out / "p.json"],
                          ["instrument", model, "-o", case.out / "i.onnx"], ["verify", model, case.path]):
                tidemark(*words).refuses(BAD_INPUT, model)
        for data in (case.path / "absent.npy", case.path, case.write("x.txt", b"1 2 3"), case.write("x.npz", b""),
                     "/dev/null"):
            case.profile(DIGITS, data).refuses(BAD_INPUT, data)
        tidemark("show", case.path / "absent.json").refuses(BAD_INPUT, "absent.json")
        tidemark("show", case.path).refuses(BAD_INPUT, case.path)
        assert files(case.out) == []


def test_unreadable_files_are_reported():
    other = other_user()
    with Case() as case:
        case.out.chmod(0o777)
        model, data = case.write("model.onnx", MODEL_BYTES), case.write("x.npy", npy_bytes([4, 1, 8, 8]))
        case.profile(model, data, **other).expect(DONE)
        (case.out / "p.json").unlink()
        for path in (model, data):
            path.chmod(0)
            case.profile(model, data, **other).refuses(BAD_INPUT, path, "ermission")
            path.chmod(0o644)


# ---- outputs that cannot be written ----

def writers(target):
    """Every command that writes, with the outputs it can write into the folder `target`."""
    yield from (["profile", DIGITS, "--data", PICTURES, "--quiet", "-o", target / f"p.{form}"] for form in FORMATS)
    yield ["run", DIGITS, "--data", PICTURES, "--quiet", "-o", target / "r.npz"]
    yield ["run", DIGITS, "--data", PICTURES, "--quiet", "-o", target / "r.npy"]
    yield ["instrument", DIGITS, "--quiet", "-o", target / "i.onnx"]


def test_missing_output_folder_is_reported():
    with Case() as case:
        for words in writers(case.out / "absent"):
            tidemark(*words).refuses(MACHINE, words[-1])
        file = case.write("file", b"")
        for words in writers(file):
            tidemark(*words).refuses(MACHINE, words[-1])
        for words in writers(case.out):
            words[-1].mkdir()
            tidemark(*words).refuses(MACHINE, words[-1])
            words[-1].rmdir()
            assert files(case.out) == []


def test_unwritable_output_folder_is_reported():
    other = other_user()
    with Case() as case:
        model, data = case.write("model.onnx", MODEL_BYTES), case.write("x.npy", npy_bytes([4, 1, 8, 8]))
        case.out.chmod(0o555)
        for words in writers(case.out):
            words = [model if word == DIGITS else data if word == PICTURES else word for word in words]
            tidemark(*words, **other).refuses(MACHINE, words[-1], "ermission")
            assert files(case.out) == []


def test_a_limit_on_file_sizes_is_reported_and_outputs_stay_unchanged():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    with Case() as case:
        old = b"old contents"
        for words in writers(case.out):
            words[-1].write_bytes(old)
            tidemark(*words, preexec_fn=limit).refuses(MACHINE, words[-1], "too large")
            assert words[-1].read_bytes() == old
            words[-1].unlink()
            assert files(case.out) == [], f"left behind by {words}"


def test_a_full_disk_is_reported_and_nothing_is_left():
    with small_disk(8192) as disk:
        for words in writers(disk):
            tidemark(*words).refuses(MACHINE, words[-1], "space")
            assert files(disk) == [], f"left behind by {words}"


main()
