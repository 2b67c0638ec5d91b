# SPDX-License-Identifier: Apache-2.0
"""Every command of docs/tutorial.md, docs/quantize.md and of the tour in README.md, as it stands there."""
import re
import shlex
import shutil

from cli import BUNDLE, DONE, SOURCE, folder, main, tidemark


def commands(page):
    text = (SOURCE / page).read_text()
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                assert words[0] == "tidemark", f"{page}: {line}"
                yield words[1:]


def run_all(page, fewest, **files):
    with folder() as here:
        for name, text in files.items():
            (here / f"{name}.json").write_text(text)
        for file in BUNDLE.glob("digits*"):
            shutil.copy(file, here)
        found = list(commands(page))
        assert len(found) >= fewest, f"{page} has {len(found)} commands"
        for words in found:
            tidemark(*words, cwd=here).expect(DONE)
            for flag, name in zip(words, words[1:]):
                assert flag != "-o" or (here / name).stat().st_size, f"{words} left no {name}"


def test_commands_of_the_tutorial_run():
    run_all("docs/tutorial.md", 15)


def test_commands_of_the_readme_run():
    run_all("README.md", 6)


def test_commands_of_the_page_for_int8_run():
    page = (SOURCE / "docs/quantize.md").read_text()
    config, = re.findall(r"^```json\n(.*?)^```$", page, re.M | re.S)
    run_all("docs/quantize.md", 17, quantize=config)


def test_the_page_for_int8_shows_what_is_printed():
    shown = re.search(r"^    good: .*\n^    digits.int8.onnx: .*$", (SOURCE / "docs/quantize.md").read_text(), re.M)[0]
    with folder() as here:
        printed = tidemark("quantize", BUNDLE / "digits.onnx", "--data", BUNDLE / "digits.npy", "-o", "digits.int8.onnx", cwd=here).out
    kinds = [re.sub(r"[0-9.]+", "N", text).split() for text in (shown, printed)]
    assert kinds[0] == kinds[1], printed


main()
