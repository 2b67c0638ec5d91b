# SPDX-License-Identifier: Apache-2.0
"""`tidemark check`: profiles are validated, and compared with another model or file."""
import json

import onnx_bytes as onnx
from cli import BAD_INPUT, DIGITS, DONE, FEATURES, PICTURES, WRONG_CALL, main, tidemark

NO = 1


def profile(path, model=DIGITS):
    tidemark("profile", model, "--data", PICTURES, "--limit", 20, "--quiet", "-o", path).expect(DONE)
    return path


def changed(path, target, change):
    document = json.loads(path.read_text())
    change(document)
    target.write_text(json.dumps(document))
    return target


def test_valid_profile_is_reported_valid(here):
    said = tidemark("check", profile(here / "p.json")).expect(DONE).out
    assert "valid: 29 values; 20 samples offered = 20 run + 0 skipped + 0 failed" in said, said
    found = json.loads(tidemark("check", here / "p.json", "--json").expect(DONE).out)
    assert found["balances"] is True and found["run"] == 20 and found["values"] == 29, found


def test_invalid_profiles_are_reported_with_the_reason(here):
    def lose_a_sample(document):
        document["ledger"]["offered"] += 1

    def add_an_element(document):
        tensor = next(value for value in document["tensors"] if value.get("histogram"))
        tensor["histogram"]["counts"][0] = int(tensor["histogram"]["counts"][0]) + 1

    good = profile(here / "p.json")
    bad = changed(good, here / "bad.json", lose_a_sample)
    done = tidemark("check", bad, good)
    assert done.status == NO and "bad.json: invalid" in done.out and "p.json: valid" in done.out, done
    lines = tidemark("check", bad, good, "--json").out.splitlines()
    first, second = (json.loads(line) for line in lines)
    assert first["balances"] is False and first["wrong"] and second["balances"] is True, lines
    changed(good, here / "bad.json", add_an_element)  # no statistics of anything
    tidemark("check", here / "bad.json").refuses(BAD_INPUT, "bad.json", "tensors[", "invalid statistics")


def test_values_of_a_model_are_matched(here):
    profile(here / "p.json")
    done = tidemark("check", here / "p.json", "--against", DIGITS).expect(DONE)
    assert "14 matched, 0 renamed, 0 unseen, 0 missing" in done.out, done
    tidemark("transform", DIGITS, "--passes", "all", "-o", here / "t.onnx", "--lineage", here / "l.json",
             "--quiet").expect(DONE)
    for words, status in (([], NO), (["--coverage", 10], DONE), (["--coverage", 99], NO)):
        done = tidemark("check", here / "p.json", "--against", here / "t.onnx", *words)
        assert done.status == status and "missing" in done.out, done
    found = json.loads(tidemark("check", here / "p.json", "--against", here / "t.onnx", "--json").out)["against"]
    assert found["missing"] and 0 < found["coverage"] < 1, found


def test_renamed_values_are_listed(here):
    profile(here / "p.json")
    changed(here / "p.json", here / "q.json", lambda document: document["tensors"][2].update(name="another"))
    done = tidemark("check", here / "q.json", "--against", DIGITS).expect(DONE)
    assert "renamed  p2" in done.out and "was another" in done.out and "1 renamed" in done.out, done


def test_large_models_are_checked(here):
    many = 10100 if "sanitized" in FEATURES else 20000  # the page searches no method for more than 10,000
    nodes = [onnx.node(("Relu", "Neg")[i % 2], [f"v{i}"], [f"v{i + 1}"]) for i in range(many)]
    ends = [[onnx.value(f"v{end}", ["N"])] for end in (0, many)]
    (here / "m.onnx").write_bytes(onnx.model(nodes, *ends))
    (here / "x.bin").write_bytes(bytes(4))
    tidemark("profile", here / "m.onnx", "--data", here / "x.bin", "--dim", "N=1", "--quiet", "-o", here / "p.json").expect(DONE)
    done = tidemark("check", here / "p.json", "--against", here / "m.onnx").expect(DONE)
    assert f"{many + 1} matched, 0 renamed, 0 unseen, 0 missing" in done.out, done.out
    tidemark("report", here / "p.json", "--since", here / "p.json", "-o", here / "p.html").expect(DONE)
    page = (here / "p.html").read_text()
    assert '"methods_left_out":["auto","mse","entropy"]' in page and f'\n[{many},"v{many}"' in page, "auto, mse and entropy of so many"


def test_usage_errors_and_bad_files_are_refused(here):
    tidemark("check").refuses(WRONG_CALL, "PROFILE")
    tidemark("check", "no-such.json").refuses(BAD_INPUT, "no-such.json")
    tidemark("check", PICTURES).refuses(BAD_INPUT, "digits.npy")
    done = tidemark("check", profile(here / "p.json"), "--against", PICTURES)
    assert done.status == BAD_INPUT and "digits.npy" in done.err, done


main()
