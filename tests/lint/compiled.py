# SPDX-License-Identifier: Apache-2.0
"""What a build folder compiles, for programs that read C as a compiler does."""
import json
from pathlib import Path


def commands(build, root, folders):
    """The compile commands of the sources in these folders of `root`, each source once; a dict by path."""
    first = {}
    for command in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = (Path(command["directory"]) / command["file"]).resolve()
        if path.is_relative_to(root) and path.relative_to(root).parts[0] in folders:
            first.setdefault(path, command)
    return first
