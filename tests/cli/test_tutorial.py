# SPDX-License-Identifier: Apache-2.0
"""Every command of docs/tutorial.md and of the tour in README.md, as it stands there."""
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


def run_all(page, fewest):
    with folder() as here:
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


main()
