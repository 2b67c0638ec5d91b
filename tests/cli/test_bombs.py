# SPDX-License-Identifier: Apache-2.0
"""Small files that become large, long or deep when they are read: done or refused in one line, in seconds and little memory."""
import json
import os
import resource
import struct
import subprocess
import sys
import zlib

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, WRONG_CALL, main, needs, npy_bytes, subset, tidemark
from memory_limit import within
from png import chunk, png_of_chunks
from sources import PYTHON, need_hdf5

LIMIT = 768  # MiB
MANY = 100000


def refused(here, *words, says=()):
    within(LIMIT, *words, cwd=here).refuses(BAD_INPUT, *says)


def profile(here, model, data, says=()):
    refused(here, "profile", model, "--data", data, "-o", "p.json", says=says)
    assert not (here / "p.json").exists()


# ---- data ----

def deflated(size):
    """So many zeros, without holding them."""
    pack, piece = zlib.compressobj(1, zlib.DEFLATED, -15), bytes(1 << 20)
    return b"".join([*(pack.compress(piece) for _ in range(size >> 20)), pack.flush()])


def npz(header, packed, claimed):
    """An archive of one member 'image', which declares that it unpacks to `claimed` bytes."""
    whole = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = whole.compress(header) + whole.flush(zlib.Z_FULL_FLUSH)
    body, name = start + packed, b"image.npy"
    entry = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(body), min(claimed, 0xfffffffe), len(name), 0)
    local = b"PK\3\4" + entry + name + body
    central = b"PK\1\2" + struct.pack("<H", 20) + entry + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    return local + central + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)


def test_archives_that_unpack_to_another_size_are_refused(here):
    picture = npy_bytes([1, 1, 8, 8])
    huge = npy_bytes([1]).replace(b"(1,), }" + b" " * 13, b"(4194304,1,8,8), }  ")[:-4]
    bomb = deflated(1 << 30)
    for header, claimed in ((picture[:128], len(picture)), (picture[:128], 1 << 30), (huge, 128 + (1 << 30)), (huge, 1 << 32)):
        (here / "x.npz").write_bytes(npz(header, bomb, claimed))
        profile(here, DIGITS.resolve(), "x.npz", says=["x.npz"])


def test_zip_directories_count_against_the_limit(here):
    name, n = b"a.npy", 200000
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 0) + name
    directory = entry * n
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, n, n, len(directory), 0)
    ends = {"large": end64 + struct.pack("<4sIQI", b"PK\6\7", 0, len(directory), 1) + struct.pack("<4s4H2IH", b"PK\5\6", *[0] * 2, *[0xffff] * 2, *[0xffffffff] * 2, 0),
            "small": struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, n & 0xffff, n & 0xffff, len(directory), 0, 0)}
    for kind, end in ends.items():
        (here / "x.npz").write_bytes(directory + end)
        said = within(64, "profile", DIGITS.resolve(), "--data", "x.npz", "-o", "p.json", cwd=here)
        said.refuses(BAD_INPUT, "x.npz", *(("directory takes", "limit") if kind == "large" else ()))


# A helper program that the archive has taken over: struct tmk_helper_answer, then what data/zip_wire.h has.
TAKEN_OVER = """#!{python}
import mmap, os, socket, struct
mode, version = {mode!r}, {version!r}
talk = socket.socket(fileno=3)
begin = struct.unpack("<QQq", talk.recv(1 << 15)[:24])
shared = mmap.mmap(4, begin[1])
def answer(op, more, outcome=0):
    talk.send(struct.pack("<II256s", op, outcome, b"why " * 70) + more)
answer(0, struct.pack("<32sII", version, 0, 0))
while ask := talk.recv(1 << 15):
    op, _, index, at, length = struct.unpack("<IIQQQ", ask[:32])
    n = 1 if op == 1 else 1 if op == 2 else length
    record = struct.pack("<QQIIII", 200, 200, 0, 1, 9, 0) + b"image.npy"
    if mode == "many": n = 1 << 40
    if mode == "name": record = record[:24] + struct.pack("<I", 0xffffffff) + record[28:]
    if mode == "large": record = struct.pack("<QQ", 1 << 62, 1 << 62) + record[16:]
    if mode == "none" and op == 2: n = 0
    if mode == "more" and op == 3: n = length + 1
    if mode == "fewer" and op == 3: n = 0
    if mode == "gone" and op == 3: os._exit(0)
    if mode == "killed" and op == 2: os.kill(os.getpid(), 11)
    shared[:len(record)] = record if op == 2 else bytes(len(record))
    answer(op + (mode == "other"), struct.pack("<Q", n)[:7 if mode == "cut" else 8], mode == "outcome" and 77)
"""


def test_answers_of_a_helper_that_is_taken_over(here):
    (here / "x.npz").write_bytes(npz(npy_bytes([1, 1, 8, 8])[:128], deflated(1 << 20), 1 << 20))
    helper, version = here / "bin" / "tidemark-read-archives", tidemark("--version").out.split()[1].encode()
    helper.parent.mkdir()
    for mode in ("many", "name", "large", "none", "more", "fewer", "gone", "killed", "other", "cut", "outcome", "zeros"):
        helper.write_text(TAKEN_OVER.format(python=sys.executable, mode=mode, version=version))
        helper.chmod(0o755)
        said = tidemark("profile", DIGITS.resolve(), "--data", here / "x.npz", "-o", here / "p.json",
                        env={**os.environ, "TIDEMARK_LIBEXEC": str(helper.parent)})
        said.refuses(BAD_INPUT, "x.npz")


def jpeg(width, height, scans, progressive):
    """A grey picture whose scans hold nothing but the ends of bands."""
    def part(mark, content):
        return bytes([0xff, mark]) + struct.pack(">H", len(content) + 2) + content
    table = part(0xc4, b"\x00" + bytes([1] + [0] * 15) + b"\x00") + part(0xc4, b"\x10" + bytes([1] + [0] * 15) + b"\xe0")
    out = b"\xff\xd8" + part(0xdb, b"\0" + b"\1" * 64) + part(0xc2 if progressive else 0xc0, struct.pack(
        ">BHHBBBB", 8, height, width, 1, 1, 0x11, 0)) + table
    scan = part(0xda, bytes([1, 1, 0, 0, 0, 0])) if progressive else part(0xda, bytes([1, 1, 0, 0, 63, 0]))
    refine = part(0xda, bytes([1, 1, 0, 1, 63, 0]))
    return out + scan + b"\0" * 2 + (refine + b"\0") * (scans - 1) + b"\xff\xd9"


def test_oversized_images_are_refused(here):
    needs("images")
    bomb = zlib.compress(bytes(1 << 26), 9)
    pixels = chunk(b"IDAT", zlib.compress(bytes(9) * 8))
    pictures = {f"{side}.png": png_of_chunks(side, side, pixels) for side in (20000, 65500, 0x7fffffff, 0x80000000, 0xffffffff)}
    pictures |= {"wide.png": png_of_chunks(0x7fffffff, 1, pixels), "empty.png": png_of_chunks(9000, 9000, pixels),
                 "65500.jpg": jpeg(65500, 65500, 1, False), "65500p.jpg": jpeg(65500, 65500, 9, True),
                 "scans.jpg": jpeg(2000, 2000, 5000, True)}
    for name, content in pictures.items():
        (here / name).write_bytes(content)
        profile(here, DIGITS.resolve(), name, says=[name])
    # what the file has besides pixels is not kept
    for kind, content in ((b"iCCP", b"p\0\0" + bomb), (b"zTXt", b"t\0\0" + bomb), (b"iTXt", b"t\0\1\0\0\0" + bomb)):
        (here / "same.png").write_bytes(png_of_chunks(8, 8, *[chunk(kind, content)] * 20, pixels))
        done = within(64, "profile", DIGITS.resolve(), "--data", "same.png", "-o", "p.json", "--quiet", cwd=here)
        assert done.status in (DONE, BAD_INPUT), done


def test_image_decoding_keeps_the_memory_limit(here):
    needs("images")
    many, most = 40000000, 160  # pixels; MiB
    rows = zlib.compressobj(9)
    column = chunk(b"IDAT", b"".join([*(rows.compress(bytes(2 * many // 40)) for _ in range(40)), rows.flush()]))
    pixels = chunk(b"IDAT", zlib.compress(bytes(9)))
    pictures = {"large.png": (png_of_chunks(9000, 9000, pixels, color=2), "9000 x 9000"), "wide.png": (png_of_chunks(many, 1, pixels, bits=16, color=6), "libpng"),
                "tall.png": (png_of_chunks(1, many, column), "resizing"), "scans.jpg": (jpeg(9000, 9000, 9, True), "several scans")}
    for name, (content, why) in pictures.items():
        (here / name).write_bytes(content)
        said = within(most, "profile", DIGITS.resolve(), "--data", name, "--image", "resize=8x8,color=grey", "--on-bad-sample", "skip",
                      "-o", "p.json", cwd=here)
        said.refuses(BAD_INPUT, name, why, "limit")
        assert not (here / "p.json").exists()
    with open(here / "empty.png", "wb") as file:
        file.truncate(1 << 40)
    within(most, "profile", DIGITS.resolve(), "--data", "empty.png", "-o", "p.json", cwd=here).refuses(BAD_INPUT, "empty.png", "limit")


HDF5 = """
import h5py, numpy, os
secret = numpy.arange(64, dtype='f4').reshape(1, 1, 8, 8)
with h5py.File('secret.h5', 'w') as f:
    f['x'] = secret
secret.tofile('secret.bin')
with h5py.File('many.h5', 'w') as f:
    f.create_dataset('x', (1 << 34, 1, 8, 8), 'f4', chunks=(1 << 14, 1, 8, 8), compression='gzip')
with h5py.File('chunk.h5', 'w') as f:
    f.create_dataset('x', (1 << 22, 1, 8, 8), 'f4', chunks=(1 << 22, 1, 8, 8), compression='gzip')
with h5py.File('link.h5', 'w') as f:
    f['x'] = h5py.ExternalLink('secret.h5', '/x')
with h5py.File('pipe.h5', 'w') as f:
    f['x'] = h5py.ExternalLink('pipe', '/x')
with h5py.File('raw.h5', 'w') as f:
    f.create_dataset('x', (1, 1, 8, 8), 'f4', external=[('secret.bin', 0, 256)])
for name, maxshape in (('virtual.h5', None), ('growing.h5', (None, 1, 8, 8))):
    with h5py.File(name, 'w') as f:
        layout = h5py.VirtualLayout((1, 1, 8, 8), 'f4', maxshape=maxshape)
        layout[:] = h5py.VirtualSource('secret.h5', 'x', shape=(1, 1, 8, 8))
        f.create_virtual_dataset('x', layout)
os.mkfifo('pipe')
"""


def test_hdf5_data_outside_the_file_is_refused(here):
    need_hdf5()
    subprocess.run([PYTHON, "-c", HDF5], cwd=here, check=True)
    for name in ("many", "link", "pipe", "raw", "virtual", "growing"):
        for inside in ("", ":/x"):
            profile(here, DIGITS.resolve(), f"{name}.h5{inside}", says=[f"{name}.h5"])
    for name in ("raw", "virtual"):
        profile(here, DIGITS.resolve(), f"{name}.h5:/x", says=["outside the file"])
    profile(here, DIGITS.resolve(), "chunk.h5:/x")


CHUNKS = """
import h5py, numpy
with h5py.File('chunks.h5', 'w') as f:
    x = f.create_dataset('x', (655360, 1, 8, 8), 'f4', chunks=(655360, 1, 8, 8), compression='gzip')
    x[:2] = numpy.ones((2, 1, 8, 8), 'f4')
"""


def test_hdf5_chunks_keep_the_memory_limit(here):
    """A chunk of 160 MiB."""
    need_hdf5()
    subprocess.run([PYTHON, "-c", CHUNKS], cwd=here, check=True)
    words = ["run", DIGITS.resolve(), "--data", "chunks.h5:/x", "--limit", 2, "-o", "y.npz"]
    within(64, *words, cwd=here).refuses(BAD_INPUT, "chunks.h5", "HDF5: ", "MiB of the memory limit")
    within(640, *words, cwd=here).expect(DONE)


# ---- weights that are elsewhere ----

def test_external_weights_must_be_regular_files(here):
    (here / "x.npy").write_bytes(npy_bytes([4, 3]))
    (here / "deep").mkdir()
    os.mkfifo(here / "pipe")
    os.symlink("/dev/zero", here / "zero")
    os.symlink("/dev", here / "dev")
    os.symlink("pipe", here / "to-pipe")
    os.symlink("round", here / "round")
    for location in ("pipe", "to-pipe", "zero", "dev/zero", "/dev/zero", "deep", "deep/", "deep/../pipe", "round", "a\x1b[31m\nb", "\0", "a\0b",
                     "n" * 300, "\\\\host\\x", "\xff"):
        tensor = onnx.tensor("w", [3], [], external={"location": location})
        (here / "m.onnx").write_bytes(onnx.model([onnx.node("Add", ["x", "w"], ["y"])], [onnx.value("x", ["N", 3])],
                                                 [onnx.value("y", ["N", 3])], [tensor]))
        profile(here, "m.onnx", "x.npy", says=["m.onnx", "'w'"])


# ---- text and models ----

def test_deeply_nested_relay_is_refused(here):
    start = "def @main(%x: Tensor[(4), float32]) { "
    texts = [start + "(" * MANY + "%x" + ")" * MANY + " }", start + "(" * MANY, start + "fn () { " * MANY, start + "if (" * MANY,
             "def @main(%x: " + "(" * MANY, "/*" * MANY, start + "%x }\n#[metadata]\n" + "[" * MANY,
             # doubling functions; functions without an end; one that is its own
             "def @f0(%x: Tensor[(4), float32]) { nn.relu(%x) }\n" + "".join(
                 f"def @f{i + 1}(%x: Tensor[(4), float32]) {{ @f{i}(@f{i}(%x)) }}\n" for i in range(40)) + start + "@f40(%x) }",
             "".join(f"def @f{i + 1}(%x: Tensor[(4), float32]) {{ @f{i}(%x) }}\n" for i in range(MANY)) + start + f"@f{MANY}(%x) }}",
             start + "@main(%x) }"]
    for i, text in enumerate(subset(texts, 2)):
        (here / f"{i}.relay").write_text('#[version = "0.0.5"]\n' + text + "\n")
        within(256, "transform", f"{i}.relay", "--passes", "all", "-o", "t.onnx", cwd=here).refuses(BAD_INPUT, f"{i}.relay")


def test_deeply_nested_json_and_yaml_are_refused(here):
    within(LIMIT, "profile", DIGITS.resolve(), "--data", PICTURES.resolve(), "--limit", 1, "-o", "p.json", "--quiet", cwd=here).expect(DONE)
    for text in ("[" * MANY, "[" * MANY + "]" * MANY, '{"a":' * MANY + "1" + "}" * MANY, '{"tensors":' + "[" * MANY + "]" * MANY + "}",
                 "{" + ",".join(['"a":1'] * MANY) + "}", '{"' + "a" * 10000000 + '":1}', "- " * MANY + "a",
                 "a0: &a0 [x,x]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i},*a{i}]\n" for i in range(60))):
        (here / "bad.json").write_text(text)
        (here / "bad.yaml").write_text(text)
        for words in subset((["show", "bad.json"], ["calibrate", "bad.json"], ["calibrate", "p.json", "--config", "bad.json"],
                             ["export", "bad.json", "--to", "csv", "-o", "o.csv"], ["diff", "p.json", "bad.json"], ["diff", "p.json", "bad.yaml"],
                             ["diff", "p.json", "bad.yaml", "--format", "glow"], ["diff", "p.json", "bad.yaml", "--format", "rknn"]), 2):
            said = within(LIMIT, *words, cwd=here)
            said.refuses((BAD_INPUT, WRONG_CALL))


def test_json_trees_count_against_the_limit(here):
    """A tree takes forty times as much as its text, at worst."""
    numbers, part, most = "[" + "1," * 1000000 + "1]", "[" + "1," * 62500 + "1]", 64
    head = '{"format":"tidemark-profile","version":{"major":1,"minor":0},'
    texts = {"config": '{"rules":[],"x-a":' + numbers + "}", "strings": '{"rules":[],"x-a":[' + '"",' * 1000000 + "1]}",
             "encodings": '{"format":"tidemark-encodings","encodings":' + numbers + "}", "header": head + '"model":' + numbers + ',"tensors":[]}',
             "headers": head + "".join(f'"model":{part},' for _ in range(30)) + '"tensors":[]}',
             "lineage": '{"format":"tidemark-lineage","originals":' + numbers + "}"}
    within(LIMIT, "profile", DIGITS.resolve(), "--data", PICTURES.resolve(), "--limit", 1, "-o", "p.json", "--quiet", cwd=here).expect(DONE)
    tidemark("calibrate", here / "p.json", "-o", here / "e.json").expect(DONE)
    texts["values"] = json.dumps(json.loads((here / "p.json").read_text()) | {"tensors": [0]}).replace("[0]", f"[{numbers}]")
    for name, text in texts.items():
        (here / f"{name}.json").write_text(text)
    for words in (["calibrate", "p.json", "-o", "n.json", "--config", "config.json"], ["calibrate", "p.json", "-o", "n.json", "--config", "strings.json"],
                  ["export", "encodings.json", "--to", "csv", "-o", "o.csv"], ["diff", "p.json", "encodings.json"],
                  ["check", "p.json", "--against", "encodings.json"], ["show", "header.json"], ["show", "headers.json"], ["show", "values.json"],
                  ["graph", DIGITS.resolve(), "--lineage", "lineage.json"], ["export", "e.json", "--to", "csv", "--names", "config.json", "-o", "o.csv"]):
        within(most, *words, cwd=here).refuses(BAD_INPUT, ".json", "JSON of ", "limit")


def test_yaml_trees_count_against_the_limit(here):
    """Besides, libyaml compares each anchor with all others, and copies what a handle of tags stands for wherever it is named."""
    texts = {"lists are nested deeper": ("[" * 1000000, "{a: " * 300000, "? " * 300000, "- " * 300000, '["]",' * 300000),
             "as a tree takes": ("{" + "a," * 300000 + "}", "[" + "[]," * 300000 + "]", "---\n" * 400000),
             "tags are longer": ("%TAG ! tag:" + "a" * 1000000 + "\n---\n[" + "!x a," * 30000 + "]",),
             "too many anchors": ("".join(f"- &a{i} x\n" for i in range(300000)),
                                  "- &a {" + ",".join(f"a{i}: 1" for i in range(100000)) + "}\n" + "- *a\n" * 100000)}
    needs("yaml")
    within(LIMIT, "profile", DIGITS.resolve(), "--data", PICTURES.resolve(), "--limit", 1, "-o", "p.json", "--quiet", cwd=here).expect(DONE)
    for says, cases in texts.items():
        for text in cases:
            (here / "bad.yaml").write_text(text)
            for form in subset(("glow", "rknn"), 2):
                within(64, "diff", "p.json", "bad.yaml", "--format", form, cwd=here).refuses(BAD_INPUT, "bad.yaml", says)


def function(name, called):
    """A function of one argument that calls others one after another."""
    nodes = [onnx.node(f, [f"v{i}"], [f"v{i + 1}"], "call", "f") for i, f in enumerate(called)]
    opset = onnx.block(9, onnx.block(1, "f") + onnx.number(2, 1))
    return onnx.block(25, onnx.block(1, name) + onnx.block(4, "v0") + onnx.block(5, f"v{len(called)}") +
                      b"".join(onnx.block(7, n) for n in nodes) + opset + onnx.block(10, "f"))


def test_recursive_functions_and_deep_branches_are_refused(here):
    opsets = (("", 17), ("f", 1))
    for functions in ([("F", ["F"])], [("F", ["G"]), ("G", ["F"])],
                      [("F", ["F39"] * 2), *((f"F{i + 1}", [f"F{i}"] * 2) for i in range(39)), ("F0", [])],
                      [("F", [f"F{MANY}"]), *((f"F{i + 1}", [f"F{i}"]) for i in range(MANY)), ("F0", [])]):
        model = onnx.model([onnx.node("F", ["x"], ["y"], "call", "f")], [onnx.value("x", [1])], [onnx.value("y", [1])], opsets=opsets)
        (here / "m.onnx").write_bytes(model + b"".join(function(*f) for f in functions))
        within(1024, "graph", "m.onnx", cwd=here).refuses(BAD_INPUT, "m.onnx", "call")
    leaf = onnx.graph([onnx.node("Relu", ["x"], ["z"])], [], [onnx.value("z", [])])
    inner = leaf
    for _ in range(2000):
        inner = onnx.graph([onnx.node("If", ["c"], ["z"], then_branch=inner, else_branch=leaf)], [], [onnx.value("z", [])])
    (here / "m.onnx").write_bytes(onnx.number(1, 8) + onnx.block(7, inner))
    refused(here, "graph", "m.onnx", says=["within each other"])


def test_many_graphs_of_one_node_are_walked_in_linear_time(here):
    graphs = onnx.block(11, onnx.graph([], [], [])) * 200000
    node = onnx.node("Each", ["x"], ["y"], "each", "f") + onnx.block(5, onnx.block(1, "graphs") + graphs + onnx.number(20, 10))
    (here / "m.onnx").write_bytes(onnx.model([node], [onnx.value("x", [1])], [onnx.value("y", [1])], opsets=(("", 17), ("f", 1))))
    within(LIMIT, "graph", "m.onnx", cwd=here).expect(DONE)


def test_long_models_are_processed(here):
    """With a small stack: what calls itself once a node would need more."""
    steps, name, parts = 2000 if "sanitized" in FEATURES else 10000, "n" * 10000000, [f"p{i}" for i in range(2048)]
    chain = [onnx.node("Neg", [f"v{i}" if i else "x"], [f"v{i + 1}"], "same") for i in range(steps)]
    models = {"chain": ([*chain, onnx.node("Neg", [f"v{steps}"], ["y"])], []),
              "wide": ([*(onnx.node("Neg", ["x"], [f"w{i}"]) for i in range(steps)), onnx.node("Neg", ["x"], ["y"])], []),
              "operands": ([onnx.node("Concat", ["x"] * 2048, ["c"], axis=0), onnx.node("Split", ["c"], parts), onnx.node("Sum", parts, ["y"])], []),
              "name": ([onnx.node("Neg", ["x"], [name], name), onnx.node("Neg", [name], ["y"])], []),
              "weights": ([onnx.node("Neg", ["x"], ["y"])], [onnx.tensor(f"w{i}", [1], [i]) for i in range(10 * steps)])}
    (here / "x.bin").write_bytes(bytes(4))
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, most))  # of the processes it starts
    for kind, (nodes, weights) in models.items():
        (here / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("x", [1])], [onnx.value("y", [1])], weights))
        for words in (["graph", "m.onnx", "--dot"], ["transform", "m.onnx", "--passes", "all", "-o", "t.onnx"],
                      ["instrument", "m.onnx", "-o", "i.onnx"], ["run", "m.onnx", "--data", "x.bin", "-o", "y.npz"]):
            assert within(LIMIT, *words, cwd=here).status == DONE, (kind, words)


main()
