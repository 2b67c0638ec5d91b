# SPDX-License-Identifier: Apache-2.0
"""examples/quickstart.ipynb: its cells run in order, print what they promise, and none holds output.

    test_notebook.py PROGRAM SOURCE_ROOT CORE
"""
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path

from package import SOURCE, skip

try:
    import onnxruntime  # noqa: F401
    import tidemark  # noqa: F401
except ImportError as missing:
    skip(missing)


def main():
    notebook = json.loads((SOURCE / "examples/quickstart.ipynb").read_text())
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"]), "a cell holds output"
    printed, names = io.StringIO(), {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "examples"
        home.mkdir()
        (Path(folder) / "bundle").symlink_to(SOURCE.resolve() / "bundle")
        os.chdir(home)
        with contextlib.redirect_stdout(printed):
            for cell in cells:
                *lines, last = cell.splitlines()
                exec(compile(cell, "cell", "exec"), names)
                if last.isidentifier():
                    assert "<table" in names[last]._repr_html_(), f"{last} is no table"
        assert {"digits-int8.onnx", "report.html"} <= {path.name for path in home.iterdir()}
        os.chdir(SOURCE)
    text = printed.getvalue()
    print(text)
    assert names["accuracy"] > 0.9 and names["result"].agreement > 0.9 and "dB" in text


main()
