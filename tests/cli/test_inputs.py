# SPDX-License-Identifier: Apache-2.0
"""No output replaces an input or another output, under whatever name: every pair of options that name files, of every verb."""
import os
import re
import shutil
import subprocess

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, PROGRAM, SOURCE, WRONG_CALL, files, folder, main, subset, tidemark

FILE_VALUES = ("FILE", "SRC", "MODEL", "PROFILE", "MAP.json")
ROW = re.compile(r'"([a-z-]+)",\s*(?:0|\'(.)\'),\s*OPTION_([A-Z]+),\s*"([^"]*)"')


def kinds():
    """{(verb, option): kind}, from the tables in the sources; those of headers count for every verb."""
    found = {}
    for path in sorted((SOURCE / "tools").glob("*.[ch]")):
        verb = path.stem.removeprefix("cmd_") if path.stem.startswith("cmd_") else None
        for name, _, kind, value in ROW.findall(path.read_text().replace("\\\n", "")):
            found[verb, name] = kind, value
    return found


def options_of(verb):
    """{option: value} of a verb, as its help lists them."""
    return dict(re.findall(r"^ *(?:-., |)--([a-z-]+) ([^ \n]+)", tidemark(verb, "--help").expect(DONE).out, re.M))


def file_options():
    """(verb, options that are read, options that are written); "" are the arguments."""
    listed = [line.split()[0] for line in tidemark("--help").out.splitlines() if line.startswith("  ")]
    tables = kinds()
    for verb in listed:
        read, written = [""], []
        for name, value in options_of(verb).items():
            kind, _ = tables.get((verb, name)) or tables.get((None, name), ("", ""))
            if kind.startswith("INPUT"):
                read.append(name)
            elif kind.startswith("OUTPUT"):
                written.append(name)
        yield verb, read, written


def word_of(name, path):
    return [path] if not name else [f"--{name}", path]


def test_options_that_name_files_are_inputs_or_outputs():
    seen = set()
    for (verb, name), (kind, value) in kinds().items():
        is_file = value.startswith(FILE_VALUES) or name == "labels"  # a file, or an array of one
        assert is_file == (kind in ("INPUT", "INPUTS", "OUTPUT", "OUTPUTS")), f"{verb} --{name} {value} is OPTION_{kind}"
        seen.add(kind)
    assert seen >= {"INPUT", "INPUTS", "OUTPUT", "OUTPUTS", "TEXT"}
    assert sum(len(written) for _, _, written in file_options()) >= 14


def names_of(path, other):
    """One file by several names, made in the folder `other`."""
    (other / "link").symlink_to(path)
    (other / "again").symlink_to("link")
    os.link(path, other / "hard")
    yield from (path, other / "link", other / "again", other / "hard", f"{path.parent}/../{path.parent.name}/{path.name}")


def test_every_pair_of_every_verb():
    pairs = 0
    with folder() as here:
        path, other = here / "p.json", here / "other"
        path.write_text("{}")
        other.mkdir()
        names = list(names_of(path, other))
        before = files(here)
        with open(path) as opened:
            for verb, read, written in file_options():
                for output in written:
                    for name in [*read, *(name for name in written if name != output)]:
                        spelled = [*names, f"/proc/self/fd/{opened.fileno()}", f"/dev/fd/{opened.fileno()}"]
                        if name == "data":
                            spelled += [f"x={path}", f"x={path}:/a/b", f"{other}/link:/a"]
                        every = verb in ("merge", "profile") and output == "output"  # elsewhere one in turn
                        for same in subset(spelled) if every else [spelled[pairs % len(spelled)]]:
                            words = [verb, *word_of(name, same), *word_of(output, path)]
                            tidemark(*words, pass_fds=[opened.fileno()]).refuses(WRONG_CALL, "name the same file")
                            pairs += 1
        assert path.read_text() == "{}" and files(here) == before
    assert pairs > (60 if "sanitized" in FEATURES else 90), pairs


def test_outputs_that_do_not_exist_yet():
    tables = kinds()
    with folder() as here:
        (here / "later").symlink_to("p.json")
        for verb, read, written in file_options():
            for output in written:
                if "FILE" not in options_of(verb)[output]:
                    continue
                for name in written:
                    if name == output and (tables.get((verb, output)) or tables[None, output])[0] != "OUTPUTS":
                        continue
                    for one in subset((here / "p.json", here / "later", f"{here}/./p.json")):
                        tidemark(verb, *word_of(name, one), *word_of(output, here / "p.json")).refuses(WRONG_CALL, "name the same file")
        assert files(here) == ["later"]


def test_the_five_that_were_lost():
    """With all that a command needs, and what it read is there afterwards, byte for byte."""
    with folder() as here:
        shutil.copy(PICTURES, here / "d.npy")
        (here / "lab.json").write_text("a\n" * 200)
        tidemark("profile", DIGITS, "--data", here / "d.npy", "--limit", 8, "-o", here / "s.json").expect(DONE)
        tidemark("calibrate", here / "s.json", "-o", here / "e.json").expect(DONE)
        before = {name: (here / name).read_bytes() for name in files(here)}
        for words in (["run", DIGITS, "--data", here / "d.npy", "-o", here / "d.npy"],
                      ["report", here / "s.json", "-o", here / "s.json"],
                      ["profile", DIGITS, "--data", here / "d.npy", "--strata", here / "lab.json", "-o", here / "lab.json"],
                      ["export", here / "e.json", "--to", "csv", "-o", here / "e.json"],
                      ["merge", here / "s.json", "-o", here / "s.json"]):
            tidemark(*words).refuses(WRONG_CALL, "name the same file")
        with open(here / "d.npy", "rb") as data:
            tidemark("run", DIGITS, "--data", "-", "-o", here / "d.npy", stdin=data).refuses(WRONG_CALL, "name the same file")
        with open(here / "s.json", "ab") as out:
            done = subprocess.run([PROGRAM, "show", here / "s.json", "--json"], stdout=out, stderr=subprocess.PIPE, text=True)
        assert done.returncode == WRONG_CALL and "standard output" in done.stderr, done
        assert {name: (here / name).read_bytes() for name in files(here)} == before


def test_files_that_inputs_name():
    """No option names them: the library records that they were read."""
    with folder() as here:
        weights = bytes(range(256)) * 16
        (here / "w.onnx").write_bytes(weights)
        (here / "m.onnx").write_bytes(onnx.model([onnx.node("Add", ["x", "w"], ["y"])], [onnx.value("x", ["N", 1024])],
                                                 [onnx.value("y", ["N", 1024])], [onnx.tensor("w", [1024], None, external={"location": "w.onnx"})]))
        before = files(here)
        for words in (["transform", here / "m.onnx", "--passes", "none", "-o", here / "w.onnx"],
                      ["instrument", here / "m.onnx", "-o", here / "w.onnx"]):
            tidemark(*words).refuses(WRONG_CALL, "w.onnx is an input")
        assert (here / "w.onnx").read_bytes() == weights and files(here) == before


def test_a_checkpoint_is_resumed_and_replaced():
    with folder() as here:
        words = ["profile", DIGITS, "--data", PICTURES, "--limit", 8, "-o", here / "p.json", "--checkpoint"]
        shutil.copy(PICTURES, here / "c")
        tidemark(*words, here / "c").refuses(BAD_INPUT, "c: ")
        assert (here / "c").read_bytes() == PICTURES.read_bytes()


main()
