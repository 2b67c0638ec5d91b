# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: it is opened, sorted, searched, a value is opened, and nothing is said on the console.

A copy of the page gets one more script, which clicks and types and leaves what it found in the page; headless Chromium prints
the page as it is then.

usage: test_report.py PROGRAM SOURCE_ROOT
"""
import html
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
DIGITS, PICTURES = SOURCE / "bundle/digits.onnx", SOURCE / "bundle/digits.npy"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EVIL = "</script><script>window.hacked = 1</script><img src=x onerror=\"window.hacked = 1\">"

HARNESS = """
<script>
{
const found = {};
const rows = () => [...document.querySelectorAll("#table tbody tr")];
const button = (text) => [...document.querySelectorAll("#table th button")].find((b) => b.textContent === text);
found.values = VALUES.length;
found.rows = rows().length;
found.title = document.getElementById("title").textContent;
button("greatest").click();
found.ascending = rows().map((r) => BY_ID.get(r.dataset.id).max).filter((x) => typeof x === "number");
button("greatest").click();
found.descending = rows().map((r) => BY_ID.get(r.dataset.id).max).filter((x) => typeof x === "number");
found.aria = document.querySelector("th[data-key=max]").getAttribute("aria-sort");
const search = document.getElementById("search");
search.value = "CONV weight";
search.dispatchEvent(new Event("input"));
found.searched = rows().map((r) => BY_ID.get(r.dataset.id).name);
found.said = document.getElementById("count").textContent;
search.value = "";
search.dispatchEvent(new Event("input"));
const shown = VALUES.find((v) => v.bins && v.channels) || VALUES[0];
location.hash = shown.id;
follow_hash();
const value = document.getElementById("value");
found.open = !value.hidden && document.getElementById("h-value").textContent === label(shown);
found.bars = value.querySelectorAll("rect.bar").length;
found.methods = [...value.querySelectorAll("tbody th")].map((t) => t.textContent);
const toggle = document.getElementById("logarithmic");
if (toggle) toggle.click();
found.logarithmic = toggle ? toggle.getAttribute("aria-pressed") : null;
found.boxes = document.querySelectorAll("#graph g.box").length;
found.warnings = document.querySelectorAll("#warnings .warning").length;
found.drift = document.getElementById("drift").hidden ? 0 : document.querySelectorAll("#drift tbody tr").length;
document.getElementById("theme").click();
found.theme = document.documentElement.dataset.theme;
document.getElementById("close").click();
found.closed = value.hidden;
found.hacked = window.hacked !== undefined;
found.milliseconds = performance.now();
found.outside = performance.getEntriesByType("resource").filter((r) => !r.name.startsWith("data:")).length;
found.unnamed = [...document.querySelectorAll("button, input, select, a")].filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length))).length;
document.body.replaceChildren(document.createTextNode("FOUND" + btoa(unescape(encodeURIComponent(JSON.stringify(found)))) + "DNUOF"));
}
</script>
</body>"""


def tidemark(*words):
    subprocess.run([PROGRAM, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def browse(page, folder, width=1280):
    copy = folder / "harness.html"
    copy.write_text(page.read_text().replace("</body>", HARNESS))
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},1000", "--enable-logging=stderr", "--v=0",
         f"--user-data-dir={folder / 'browser'}", "--virtual-time-budget=5000", "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, timeout=120)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    match = re.search(r"FOUND([A-Za-z0-9+/=]+)DNUOF", done.stdout)
    assert match, f"the page did not get to its end: {said} {done.stdout[-300:]}"
    found = json.loads(base64.b64decode(match[1]))
    assert not said, f"on the console: {said}"
    assert not found["hacked"] and not found["outside"], found
    return found


def check(found, values):
    assert found["rows"] == found["values"] == values, found
    assert found["ascending"] == sorted(found["ascending"]) and found["descending"] == sorted(found["descending"])[::-1], found
    assert found["aria"] == "descending" and found["open"] and found["closed"] and found["unnamed"] == 0, found
    assert found["bars"] > 20 and found["logarithmic"] == "true" and {"minmax", "mse"} <= set(found["methods"]), found
    assert found["theme"] in ("dark", "light"), found


def main():
    if not BROWSER:
        print("skipped: no Chromium here")
        sys.exit(77)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        profile, earlier, page = folder / "p.json", folder / "q.json", folder / "r.html"
        tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 100, "-o", profile, "--quiet")
        tidemark("profile", DIGITS, "--data", PICTURES, "--limit", 5, "-o", earlier, "--quiet")
        tidemark("report", profile, "--since", earlier, "-o", page, "--quiet")
        for width in (1280, 390):
            found = browse(page, folder, width)
            check(found, 29)
            assert found["title"] == "digits.onnx" and found["drift"] > 5 and found["boxes"] == 14, found
            assert found["searched"] and all("conv" in n and "weight" in n for n in found["searched"]), found
            print(f"  {width} pixels wide: {found['milliseconds']:.0f} ms")
        document = json.loads(profile.read_text())
        document["model"]["file"] = "evil <b>" + EVIL
        for i, tensor in enumerate(document["tensors"]):
            tensor["name"] = f"{i} {EVIL} \u001b[31m \u2028"
        copies = []
        for round_ in range(35):  # a thousand values
            for tensor in document["tensors"]:
                copy = dict(tensor, id=f"p{len(copies)}", ordinal=len(copies), name=f"{round_} {tensor['name']}", operands=[])
                copies.append(copy)
        (folder / "evil.json").write_text(json.dumps(dict(document, tensors=copies)))
        tidemark("report", folder / "evil.json", "-o", page, "--quiet")
        assert "<script>window.hacked" not in page.read_text()
        found = browse(page, folder)
        check(found, 29 * 35)
        assert found["title"] == document["model"]["file"], found["title"]
        print(f"  {found['values']} values with names of script: {found['milliseconds']:.0f} ms until all was tried")


if __name__ == "__main__":
    main()
