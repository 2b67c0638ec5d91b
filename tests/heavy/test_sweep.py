# SPDX-License-Identifier: Apache-2.0
"""Every verb over every shared model: twice, for the same bytes, and some under valgrind, for no error. Takes an hour and more.

usage: test_sweep.py PROGRAM SOURCE_ROOT [twice|valgrind] [MODEL...]

Without a kind both are done; without models all of them twice, and four under valgrind. Ends with status 77 where there are no
shared models.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests" / "cli"))
import every_verb  # noqa: E402  (needs the path)

UNDER_VALGRIND = ["mnist_cnn", "char_gpt", "dtln_lstm", "mlperf_ad_autoencoder"]
ERROR = 99
VALGRIND = ["valgrind", "-q", f"--error-exitcode={ERROR}", f"--suppressions={SOURCE / 'tests' / 'valgrind.supp'}", "--leak-check=full",
            "--errors-for-leak-kinds=definite"]
WATCHED = {"simulate", "calibrate", "link", "diff", "show", "report"}


def run_all(model, data, sets, folder, before=None):
    """{words: (status, stdout)}, and the files; `before`: for some words, the command to run them under."""
    said = {}
    for words in every_verb.commands(model, data, sets, samples=2):
        under = before(words) if before else []
        status, out, err = every_verb.run(PROGRAM, words, folder, under, seconds=3600)
        if words[0] == "run" and b" in one batch and " in err:
            status = 1  # outputs whose sizes differ between samples cannot be stacked
        said[" ".join(map(str, words))] = (status, out)
        if status == ERROR or status < 0:
            print(f"  {' '.join(map(str, words))}: status {status}\n{err.decode(errors='replace')[-3000:]}")
            raise SystemExit(1)
    return said, {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}


def twice(name, model, data, sets):
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        (said, files), (again, more) = run_all(model, data, sets, a), run_all(model, data, sets, b)
    apart = [words for words in said if said[words] != again[words]] + [f for f in files if files[f] != more.get(f)]
    refused = [words for words, (status, _) in said.items() if status > 1 and "same.relay" not in words]
    print(f"twice     {name:24} {len(said)} commands ({len(refused)} refused), {len(files)} files: "
          f"{'; '.join(apart) or 'the same'}{''.join(f'; refused: {words}' for words in refused)}", flush=True)
    return not apart and not refused


def valgrind(name, model, data, sets):
    with tempfile.TemporaryDirectory() as a:
        said, _ = run_all(model, data, sets, a, lambda words: VALGRIND if words[0] in WATCHED else [])
    n = sum(words.split()[0] in WATCHED for words in said)
    print(f"valgrind  {name:24} {n} commands, no error", flush=True)
    return True


def main():
    kinds = [word for word in sys.argv[3:] if word in ("twice", "valgrind")] or ["twice", "valgrind"]
    asked = [word for word in sys.argv[3:] if word not in kinds]
    models = every_verb.shared_models(SOURCE.parent / "shared")
    if not models:
        print("there are no shared models next to the checkout")
        sys.exit(77)
    if "valgrind" in kinds:
        subprocess.run(["valgrind", "--version"], check=True, capture_output=True)
    well = True
    for kind, check in (("twice", twice), ("valgrind", valgrind)):
        for name, *rest in models if kind in kinds else []:
            if name in asked or not asked and (kind == "twice" or name in UNDER_VALGRIND):
                well = check(name, *rest) and well
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
