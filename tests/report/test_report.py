# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: all parts are used, and nothing is said on the console.

A copy of the page gets harness.js, which clicks and types and leaves what it found in the page; headless Chromium prints
the page as it is then. With TIDEMARK_AXE=axe.min.js (npm's axe-core), that checks each page too.

usage: test_report.py PROGRAM SOURCE_ROOT
"""
import base64
import copy
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
DIGITS, PICTURES = SOURCE / "bundle/digits.onnx", SOURCE / "bundle/digits.npy"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EVIL = "</script><script>window.hacked = 1</script><img src=x onerror=\"window.hacked = 1\">"

AXE = os.environ.get("TIDEMARK_AXE")  # axe.min.js of npm's axe-core: checks what screen readers need


def tidemark(*words):
    subprocess.run([PROGRAM, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def browse(page, folder, width=1280):
    copy = folder / "harness.html"
    scripts = [Path(AXE).read_text()] if AXE else []
    scripts.append((Path(__file__).parent / "harness.js").read_text())
    copy.write_text(page.read_text().replace("</body>", "".join(f"<script>{{{s}\n}}</script>" for s in scripts) + "</body>"))
    begin = time.monotonic()
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},1000", "--enable-logging=stderr", "--v=0",
         f"--user-data-dir={folder / 'browser'}", "--virtual-time-budget=60000", "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, timeout=170)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    match = re.search(r"FOUND([A-Za-z0-9+/=]+)DNUOF", done.stdout)
    assert match, f"the page did not get to its end: {said} {done.stdout[-300:]}"
    found = json.loads(base64.b64decode(match[1]))
    assert not said, f"on the console: {said}"
    assert not found["errors"], found["errors"]
    assert not found["hacked"] and not found["outside"], found
    assert not found.get("access"), found["access"]
    found["took"] = time.monotonic() - begin
    return found


def check(found, values):
    """What holds on every page of this network, or of copies of it."""
    assert found["rowcount"] == found["values"] == values and 0 < found["rows"] <= min(values, 80), found
    assert found["ascending"] == sorted(found["ascending"]) and found["descending"] == sorted(found["descending"])[::-1], found
    assert found["aria"] == "descending" and found["unnamed"] == 0 and "weight" not in found["kinds"] and found["columns"] == 12, found
    assert found["kept"] == {"scroll": 0, "focus": True, "hash": ""}, found["kept"]
    assert found["last"] and found["opened"] and found["open"] and found["next"], found
    assert found["bars"] > 20 and found["logarithmic"] == "true" and {"minmax", "mse"} <= set(found["methods"]), found
    assert found["theme"] in ("dark", "light") and found["verdict"] and found["depth"] and found["svg"] and found["chosen"], found
    assert found["beyond"] <= 0, f"the worst values are {found['beyond']} pixels too wide"
    assert found["wide"] <= 0, f"{found['wide']} pixels too wide"
    for view in found["views"]:
        assert not view["crossings"] and not view["overlaps"] and not view.get("upward"), view
        assert view["boxes"] <= 40 or view["name"] == "all", view


def check_digits(folder, profiles, page):
    """Everything at once, at two widths."""
    encodings, results = folder / "e.json", []
    tidemark("calibrate", profiles[-1], "-o", encodings, "--quiet", "--target", "ort-cpu")
    model = ["simulate", DIGITS, encodings, "--data", PICTURES, "--quiet", "--json"]
    for name, more in (("sim", ["--limit", 64, "--labels", SOURCE / "bundle/digits-labels.npy"]), ("rank", ["--limit", 4, "--rank"]),
                       ("search", ["--limit", 8, "--search", "--budget", 4, "--profile", profiles[-1], "--target", "ort-cpu", "-o", folder / "better.json"])):
        results += ["--simulation", folder / f"{name}.json"]
        results[-1].write_bytes(subprocess.run([PROGRAM, *map(str, model + more)], check=True, stdout=subprocess.PIPE).stdout)
    tidemark("report", *profiles, "--encodings", encodings, "--model", DIGITS, *results, "-o", page, "--quiet")
    for width in (1280, 390):
        found = browse(page, folder, width)
        check(found, 29)
        assert found["title"] == "digits.onnx" and found["operators"] == found["boxes"] == 14, found
        assert found["searched"] and all("conv" in n and "weight" in n for n in found["searched"]), found
        assert found["level"] == "verdict good" and found["worst"] > 3 and found["quality"] > 10, found
        assert any("ort-cpu" in t for t in found["tiles"]) and any("multiplications" in t for t in found["tiles"]), found
        assert found["drift"] and found["lines"] and found["attributes"] > 3 and "kernel_shape" in found["chosen"] + "kernel_shape", found
        print(f"  {width} pixels wide: drawn after {found['ready']:.0f} ms")
    other = json.loads((folder / "rank.json").read_text())
    other["ranking"][0]["name"] = "of another network"
    (folder / "other.json").write_text(json.dumps(other))
    for bad in (folder / "other.json", encodings, profiles[0]):
        done = subprocess.run([PROGRAM, "report", profiles[-1], "--simulation", bad, "-o", folder / "none.html"], capture_output=True, text=True)
        assert done.returncode == 3 and done.stderr.count("\n") == 1 and bad.name in done.stderr, done
        assert not (folder / "none.html").exists()


def many_values(document, n):
    """Copies of the values, one behind the other: n at least."""
    copies = []
    while len(copies) < n:
        base, last = len(copies), copies[-1]["id"] if copies else None
        number = {t["id"]: f"p{base + i}" for i, t in enumerate(document["tensors"])}
        for i, tensor in enumerate(document["tensors"]):
            copy = dict(tensor, id=number[tensor["id"]], ordinal=base // len(number), name=f"{base} {tensor['name']}",
                        operands=[number[o] for o in tensor.get("operands", [])])
            if "sources" in tensor:
                copy["sources"] = [number[o] for o in tensor["sources"]]
            if last and not copy["operands"] and tensor["kind"] == "input":
                copy.update(kind="activation", operands=[last], producer={"node": f"join {base}", "op": "Identity", "domain": "", "output": 0})
            if tensor.get("producer"):
                copy["producer"] = dict(tensor["producer"], node=f"{base} {tensor['producer']['node']}")
            copies.append(copy)
    return dict(document, tensors=copies)


def check_many(folder, profile, page, name, n, most_bytes):
    document = many_values(json.loads(profile.read_text()), n)
    (folder / "many.json").write_text(json.dumps(document))
    tidemark("report", folder / "many.json", "-o", page, "--quiet")
    found = browse(page, folder)
    check(found, len(document["tensors"]))
    size = page.stat().st_size
    assert size <= most_bytes, f"{size} bytes of {n} values"
    print(f"  {found['values']} values{name}: {size} bytes, drawn after {found['ready']:.0f} ms, tried in {found['took']:.0f} s")
    return found


def check_long_names(folder, document, page):
    """Names and causes of low SQNR side by side."""
    changed = copy.deepcopy(document)
    for tensor in changed["tensors"]:
        tensor["name"] = f"/model/layers.0/self_attn/{tensor['name']}/LayerNormalization_output_0"
        if tensor.get("producer"):
            tensor["producer"]["op"] = "SkipSimplifiedLayerNormalization"
    (folder / "long.json").write_text(json.dumps(changed))
    tidemark("calibrate", folder / "long.json", "-o", folder / "e4.json", "--quiet", "--dtype", "int4", "--sensitive=quantize")
    tidemark("report", folder / "long.json", "--encodings", folder / "e4.json", "-o", page, "--quiet")
    found = browse(page, folder)
    check(found, 29)
    assert found["causes"] > 3, found


def check_scopes(folder, document, page):
    """One scope holds nearly all: its blocks are shown at once, those that read a later node below it. Constants are no alarm."""
    changed, at = many_values(document, 200), 5

    def moved(value):
        return f"p{int(value[1:]) + (int(value[1:]) >= at)}"
    for i, tensor in enumerate(changed["tensors"]):
        tensor.update(id=moved(tensor["id"]), operands=[*map(moved, tensor.get("operands", []))], ordinal=i)
        if "sources" in tensor:
            tensor["sources"] = [*map(moved, tensor["sources"])]
        if tensor.get("producer"):
            base, node = tensor["producer"]["node"].removeprefix("join ").partition(" ")[::2]
            tensor["producer"]["node"] = f"/net/encoder/layer.{int(base) // len(document['tensors'])}/{node or 'join'}"
    tensors = changed["tensors"]
    mask = dict(copy.deepcopy(next(t for t in tensors if t["name"] == "0 scale_out")), id=f"p{at}", ordinal=999, name="mask", operands=["p0"])
    mask["producer"] = dict(mask["producer"], node="/net/mask", op="Identity")
    tensors.insert(at, mask)
    next(t for t in tensors if t["name"] == "0 norm1_out")["operands"].append(mask["id"])
    constant = next(t for t in tensors if t["name"] == "0 pixel_scale")
    constant.update(kind="activation", status="dead", producer={"node": "/net/constant", "op": "Identity", "domain": "", "output": 0})
    (folder / "scopes.json").write_text(json.dumps(changed))
    tidemark("report", folder / "scopes.json", "-o", page, "--quiet")
    for width in (1280, 390):
        found = browse(page, folder, width)
        check(found, len(tensors))
        assert found["blocks"] == [f"layer.{i}" for i in range(7)], found["blocks"]
        assert sum(label in found["blocks"] for label in found["labels"]) == len(set(found["labels"]) & set(found["blocks"])) > 2, found["labels"]
        assert found["folded"] == 1 and not any("one and the same number" in w for w in found["warnings"]), found["warnings"]


def check_infinities(folder, document, page):
    """-infinity on the way to a Softmax is a mask; elsewhere it is what is wrong."""
    for name, level in (("dense2_out", "note"), ("conv1_out", "bad")):
        changed = copy.deepcopy(document)
        tensor = next(t for t in changed["tensors"] if t["name"] == name)
        shape = tensor["observed_shapes"][0]
        shape["runs"] += 1
        for key in ("neginf", "count", "expected_count"):
            tensor[key] += math.prod(shape["shape"])
        tensor["first_nonfinite"] = {"sample": 3, "index": 7}
        (folder / "inf.json").write_text(json.dumps(changed))
        tidemark("report", folder / "inf.json", "-o", page, "--quiet")
        found = browse(page, folder)
        assert any(f"warning {level}" in w and name in w for w in found["warnings"]), found["warnings"]
        assert (found["level"] == "verdict bad") == (level == "bad"), found["level"]


def main():
    if not BROWSER:
        print("skipped: no Chromium here")
        sys.exit(77)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        profile, page = folder / "p.json", folder / "r.html"
        earlier = [folder / f"{n}.json" for n in (5, 20)]
        for path, n in zip([*earlier, profile], (5, 20, 100)):
            tidemark("profile", DIGITS, "--data", PICTURES, "--limit", n, "-o", path, "--quiet")
        check_digits(folder, [*earlier, profile], page)
        document = json.loads(profile.read_text())
        check_infinities(folder, document, page)
        check_scopes(folder, document, page)
        check_long_names(folder, document, page)
        evil = json.loads(earlier[0].read_text())
        evil["model"]["file"] = "evil <b>" + EVIL
        for i, tensor in enumerate(evil["tensors"]):
            tensor["name"] = f"{i} {EVIL} \u001b[31m \u2028"
        (folder / "evil.json").write_text(json.dumps(evil))
        found = check_many(folder, folder / "evil.json", page, " with names of script", 300, 1 << 20)
        assert "<script>window.hacked" not in page.read_text() and found["title"] == evil["model"]["file"], found["title"]
        check_many(folder, earlier[0], page, "", 9950, 8 << 20)


if __name__ == "__main__":
    main()
