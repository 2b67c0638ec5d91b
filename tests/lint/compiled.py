# SPDX-License-Identifier: Apache-2.0
"""What a build folder compiles, for programs that read C as a compiler does."""
import json
import re
from pathlib import Path

# A file that meson writes to compile several sources at once: it includes each.
TOGETHER = re.compile(r"-unity\d+\.c$")


def sources_of(command):
    """(source, its command) of one compile command."""
    path = (Path(command["directory"]) / command["file"]).resolve()
    if not TOGETHER.search(path.name):
        yield path, command
        return
    for name in re.findall(r'^#include\s*[<"]([^>"]+)[>"]', path.read_text(encoding="utf-8"), re.M):
        source = (Path(command["directory"]) / name).resolve()
        yield source, {**command, "file": str(source), "command": command["command"].replace(command["file"], str(source))}


def commands(build, root, folders):
    """The compile commands of the sources in these folders of `root`, each source once; a dict by path."""
    first = {}
    for command in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        for path, one in sources_of(command):
            if path.is_relative_to(root) and path.relative_to(root).parts[0] in folders:
                first.setdefault(path, one)
    return first
