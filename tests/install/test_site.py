# SPDX-License-Identifier: Apache-2.0
"""tools/site builds the documentation without a warning; its links lead somewhere, its search and reference are whole.

    test_site.py BUILD_ROOT SOURCE_ROOT

Exits with 77 (skipped) where Sphinx, myst-parser or furo is missing; TIDEMARK_TEST_PYTHON may name a Python that has them.
"""
import html.parser
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

PYTHON = os.environ.get("TIDEMARK_TEST_PYTHON", sys.executable)
BUILD, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
if subprocess.run([PYTHON, "-c", "import sphinx, myst_parser, furo, numpy"], capture_output=True, check=False).returncode != 0:
    print("skipped: there is no Sphinx with myst-parser and furo")
    sys.exit(77)


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.targets, self.ids = [], set()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        self.targets += [attrs[key] for key in ("href", "src") if attrs.get(key)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        done = subprocess.run([PYTHON, "-B", SOURCE / "tools/site", "--build", BUILD, "--output", site], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr
        pages = {}
        for path in site.rglob("*.html"):
            pages[path] = Links()
            pages[path].feed(path.read_text())
        broken = []
        for path, page in pages.items():
            for target in page.targets:
                link = urllib.parse.urlsplit(target)
                if link.scheme or link.netloc:
                    continue
                place = (path.parent / urllib.parse.unquote(link.path)).resolve() if link.path else path
                anchors = pages[place].ids if place in pages else ()
                if not place.exists() or link.fragment and place in pages and link.fragment not in anchors:
                    broken.append(f"{path.relative_to(site)}: {target}")
        assert not broken, "\n".join(broken)
        for path in (SOURCE / "docs").glob("*.md"):
            assert (site / "docs" / f"{path.stem}.html").is_file(), path
        functions = 0
        for header in (SOURCE / "include/tidemark").glob("*.h"):
            text = (site / "reference" / f"{header.stem}.html").read_text()
            declared = set(re.findall(r"^TMK_API[^;]*?\b(tmk_\w+)\(", header.read_text(), re.M))
            assert not [name for name in declared if f"<h2>{name}()" not in text], header
            functions += len(declared)
            shown = re.sub(r"<[^>]*>", "", " ".join(re.findall(r"<pre>(.*?)</pre>", text, re.S)))
            assert "_LIST(" not in shown and "#define" not in shown, f"{header}: a list of the preprocessor instead of enumerators"
            assert all(f"TMK_ENCODING_{name}" in shown for name in ("ACTIVATION", "WEIGHT", "BIAS")) or header.name != "encodings.h", shown
        python = (site / "reference/python.html").read_text()
        assert all(f'id="tidemark.{name}"' in python for name in ("profile", "Profile", "ort.quantize_static")), "no Python reference"
        assert "profile[" in re.sub(r"<[^>]*>", "", python.split("<pre>")[1].split("</pre>")[0]), "the example of the package is no code"
        assert "tidemark simulate" in (site / "reference/commands.html").read_text()
        index = (site / "searchindex.js").read_text()
        assert all(word in index for word in ("zero_point", "lineag", "tmk_profile_read")), "the search lacks words"
        print(f"{len(pages)} pages, {functions} functions of C")
        assert len(pages) > 60 and functions > 100


main()
