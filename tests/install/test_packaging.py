# SPDX-License-Identifier: Apache-2.0
"""Files for packagers agree with the build: SOURCE_ROOT BUILD_FOLDER. The wheel itself takes minutes to build: tests/heavy/test_wheel.py."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
VERSION = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8")).group(1)
sys.path.insert(0, str(ROOT / "tools/lib"))
from wheel_libraries import ELSEWHERE, LIBRARIES  # noqa: E402  (needs the path)


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def packages(name):
    return re.search(rf"^{name}=\((.*?)\)", read("tools/lib/packages.sh"), re.M | re.S).group(1).split()


def test_every_file_names_the_same_version():
    assert f"version: {VERSION}\n" in read("conda/recipe.yaml")
    assert read("debian/changelog").startswith(f"tidemark ({VERSION}")


def test_dockerfile_installs_what_the_build_needs():
    words = set(re.sub(r"\\\n|&&", " ", read("Dockerfile")).split())
    assert set(packages("build_packages")) <= words, set(packages("build_packages")) - words


def test_ninja_knows_every_file_of_the_images_build():
    """A static library is built from the objects of its modules, whose names meson works out."""
    words = re.search(r"meson setup (.*?) && ", re.sub(r"\\\n", " ", read("Dockerfile"))).group(1).split()
    options = [word for word in words if word.startswith("-D") and "=enabled" not in word]
    with tempfile.TemporaryDirectory() as folder:
        for command in (["meson", "setup", folder, ROOT, *options], ["ninja", "-n", "-C", folder]):
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_wheel_has_the_libraries_of_the_build():
    named = {re.search(r"lib(\w+)", name).group(1) for name in packages("build_packages") if name.startswith("lib")}
    has = {re.sub(r"[-.\d]", "", library.source) for library in LIBRARIES} - {"zlib"}
    same = {"dnnl": "onednn", "hdf5": "hdf", "ssl": "openssl", "jpeg": "libjpegturbo", "png": "libpng", "yaml": "libyaml", "zip": "libzip",
            "protobuf": "protobufc"}
    assert {same.get(name, name) for name in named} == has, (named, has)


def test_other_processors_change_libraries_that_there_are():
    assert all(changes.keys() <= {library.source for library in LIBRARIES} for changes in ELSEWHERE.values())


def test_sbom_is_what_the_linker_recorded():
    made = subprocess.run([ROOT / "tools/sbom", BUILD], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0"
    ids = [package["SPDXID"] for package in document["packages"]]
    assert len(ids) == len(set(ids)) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in ids), ids
    known = {"SPDXRef-DOCUMENT", *ids}
    assert all(r["spdxElementId"] in known and r["relatedSpdxElement"] in known for r in document["relationships"])
    names = {package["name"] for package in document["packages"]}
    assert {"tidemark", "libcjson", "libcrypto", "libzip"} <= names, names
    own = document["packages"][0]
    assert own["versionInfo"] == VERSION and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["creationInfo"]["created"])


def test_sbom_refuses_a_library_that_it_does_not_know():
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(folder) / "tools/sbom"
        tool.parent.mkdir()
        tool.write_text(read("tools/sbom").replace('"libzip": "libzip",', ""), encoding="utf-8")
        shutil.copy(ROOT / "meson.build", folder)
        made = subprocess.run([sys.executable, tool, BUILD], capture_output=True, text=True)
        assert made.returncode == 1 and "libzip" in made.stderr, made.stderr


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok {name}")


main()
