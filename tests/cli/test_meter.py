# SPDX-License-Identifier: Apache-2.0
"""Snapshots of thresholds, and runs that stop when thresholds are stable."""
import json

import onnx_bytes as onnx
from cli import DIGITS, DONE, PICTURES, WRONG_CALL, files, main, needs, npy_bytes, save_rows, tensors_of, tidemark
from png import png

LIMIT = 100


def snapshots(path, source, samples, *more):
    """What --snapshots writes; its profile is p.json."""
    done = tidemark("profile", source, "--data", samples, "--batch", 1, "-o", path / "p.json", "--snapshots", path / "s.json", *more)
    return json.loads((path / "s.json").read_text()), done.expect(DONE)


def powers(total):
    each = [1]
    while each[-1] * 2 <= total:
        each.append(each[-1] * 2)
    return each + [total] * (each[-1] != total)


def test_snapshots_equal_shorter_runs(path):
    tidemark("profile", DIGITS, "--data", PICTURES, "--batch", 1, "-o", path / "plain.json", "--limit", LIMIT).expect(DONE)
    found, _ = snapshots(path, DIGITS, PICTURES, "--limit", LIMIT, "--threads", 3)
    assert (path / "p.json").read_bytes() == (path / "plain.json").read_bytes(), "snapshots leave no trace"
    assert [s["offered"] for s in found["snapshots"]] == powers(LIMIT) == [s["run"] for s in found["snapshots"]]
    for at, n in enumerate(powers(LIMIT)):
        tidemark("profile", DIGITS, "--data", PICTURES, "--batch", 1, "-o", path / "n.json", "--limit", n).expect(DONE)
        tensors = {t["id"]: t for t in tensors_of(path / "n.json").values() if t["kind"] != "weight"}
        assert set(tensors) == {value["id"] for value in found["values"]}
        for value in found["values"]:
            assert (value["min"][at], value["max"][at]) == (tensors[value["id"]]["min"], tensors[value["id"]]["max"])
            assert value["min"][at] <= value["p0.005"][at] <= value["p99.995"][at] <= value["max"][at]
    for value in found["values"]:
        assert value["moved"][0] is None
        for at in range(1, len(found["snapshots"])):
            width = value["max"][at] - value["min"][at]
            most = max(abs(value[t][at] - value[t][at - 1]) for t in ("min", "max", "p0.005", "p99.995"))
            assert abs(value["moved"][at] - most / width) < 1e-6, (value["name"], at)


def test_snapshots_do_not_depend_on_threads(path):
    snapshots(path, DIGITS, PICTURES, "--limit", LIMIT, "--threads", 1)
    first = (path / "s.json").read_bytes()
    for threads in (2, 4):
        snapshots(path, DIGITS, PICTURES, "--limit", LIMIT, "--threads", threads)
        assert (path / "s.json").read_bytes() == first


def rising(path, n=40):
    """The largest element grows until sample 10, then no more; sample 25 has the smallest."""
    rows = [[min(s, 10) / 10, 0.0, -0.5, 0.25] for s in range(n)]
    rows[25][2] = -1.0
    return save_rows(path / "x.npy", rows)


def identity(path):
    (path / "m.onnx").write_bytes(onnx.model([onnx.node("Neg", ["x"], ["y"], "neg")], [onnx.value("x", ["N", 4])], [onnx.value("y", ["N", "W"])]))
    return path / "m.onnx"


def test_summary_names_the_largest_change(path):
    source, samples = identity(path), rising(path)
    _, done = snapshots(path, source, samples)
    done.expect(DONE, "from 16 to 40 samples, thresholds of 2 of 2 values", "p0 'x': its min by 25 %")
    _, done = snapshots(path, source, samples, "--limit", 24)
    done.expect(DONE, "from 8 to 24 samples", " by 20 %")
    _, done = snapshots(path, source, samples, "--skip", 10, "--limit", 8)
    done.expect(DONE, "from 4 to 8 samples, no threshold moved")


def check_stops(path, source, samples, n, *more, share="0.5%"):
    words = ["profile", source, *more]
    tidemark(*words, "--data", samples, "-o", path / "limit.json", "--limit", n).expect(DONE)
    for threads in (1, 2, 4):
        done = tidemark(*words, "--data", samples, "-o", path / "p.json", "--until-stable", share, "--threads", threads)
        done.expect(DONE, f"enough after {n} samples")
        assert (path / "p.json").read_bytes() == (path / "limit.json").read_bytes(), (n, more, threads)


def test_run_until_stable_equals_a_limited_run(path):
    source, samples = identity(path), rising(path)
    # the largest: 0.7 after 8, 1 after 16, and then no more; the range is 1.5 wide
    words = ["--batch", 1]
    check_stops(path, source, samples, 8, *words, share="40%")  # from 0.3: 0.4 of 1.2
    check_stops(path, source, samples, 16, *words, share="0.21")  # from 0.7: 0.3 of 1.5
    check_stops(path, source, samples, 8, *words, "--skip", 10)
    check_stops(path, source, samples, 16, *words, "--skip", 4)
    check_stops(path, source, samples, 8, *words, "--skip", 10, "--sample-every", 2)
    check_stops(path, source, samples, 16, "--batch", 4, share="21%")
    check_stops(path, source, samples, 9, "--batch", 3, share="50%")  # 1, 2, 4, 8 lie in batches that end at 3, 6, 9
    check_stops(path, source, samples, 8, *words, "--skip", 10, "--limit", 8)  # the data ends there, too
    check_stops(path, DIGITS, PICTURES, 1024, share="5%")  # in batches of its own choice


def test_unstable_run_reads_all_samples(path):
    source, samples = identity(path), save_rows(path / "x.npy", [[2.0 ** s, 0, 0, 0] for s in range(20)])
    tidemark("profile", source, "--data", samples, "--batch", 1, "-o", path / "plain.json").expect(DONE)
    done = tidemark("profile", source, "--data", samples, "--batch", 1, "-o", path / "p.json", "--until-stable=1%").expect(DONE)
    assert "enough" not in done.err
    assert (path / "p.json").read_bytes() == (path / "plain.json").read_bytes()


def stream(path, rows):
    (path / "stream").write_bytes(b"".join(npy_bytes([1, len(row)], row) for row in rows))
    return path / "stream"


def profile_stream(source, records_file, *words):
    with records_file.open("rb") as file:
        return tidemark("profile", source, "--data", "-", "--batch", 1, *words, stdin=file)


def test_stream_stops_when_stable(path):
    source = identity(path)
    settled = stream(path, [[1.0, 0.0, -1.0, s % 2] for s in range(30)])
    profile_stream(source, settled, "-o", path / "limit.json", "--limit", 8).expect(DONE)
    done = profile_stream(source, settled, "-o", path / "p.json", "--until-stable", "1%").expect(DONE, "enough after 8 samples")
    assert (path / "p.json").read_bytes() == (path / "limit.json").read_bytes()
    profile_stream(source, settled, "-o", path / "plain.json").expect(DONE)
    done = profile_stream(source, settled, "-o", path / "p.json", "--snapshots", path / "s.json").expect(DONE)
    assert (path / "p.json").read_bytes() == (path / "plain.json").read_bytes(), done
    assert [s["offered"] for s in json.loads((path / "s.json").read_text())["snapshots"]] == powers(30)


def test_failed_samples_count_as_offered(path):
    needs("images")
    photos = path / "photos"
    photos.mkdir()
    for s in range(20):
        (photos / f"{s:02}.png").write_bytes(b"no picture" if s in (2, 9) else png(1, 1, [b"\x10\x80\xf0"], color=2))
    source = path / "m.onnx"
    source.write_bytes(onnx.model([onnx.node("Neg", ["x"], ["y"])], [onnx.value("x", ["N", 3, 1, 1])],
                                  [onnx.value("y", ["N", 3, 1, 1])]))
    words = ["profile", source, "--data", photos, "--on-bad-sample=skip", "--batch", 1]
    tidemark(*words, "-o", path / "limit.json", "--limit", 8).expect(DONE)
    tidemark(*words, "-o", path / "p.json", "--until-stable=1%").expect(DONE, "enough after 8 samples")
    assert (path / "p.json").read_bytes() == (path / "limit.json").read_bytes()
    assert json.loads((path / "p.json").read_text())["ledger"]["failed"] == 1
    tidemark(*words, "-o", path / "plain.json").expect(DONE)
    tidemark(*words, "-o", path / "p.json", "--snapshots", path / "s.json").expect(DONE)
    assert (path / "p.json").read_bytes() == (path / "plain.json").read_bytes()
    found = json.loads((path / "s.json").read_text())["snapshots"]
    assert found[-1] == {"offered": 20, "run": 18} and found[2] == {"offered": 4, "run": 3}, found


def test_conflicting_options_are_refused(path):
    source, samples = identity(path), rising(path)
    (path / "l.csv").write_text("a\n" * 40)
    before = files(path)
    for option in (["--until-stable=1%"], ["--snapshots", path / "s.json"]):
        words = ["profile", source, "--data", samples, "-o", path / "p.json", *option]
        tidemark(*words, "--shard", "1/2").refuses(WRONG_CALL, "shard", "in their order")
        tidemark(*words, "--checkpoint", path / "c").refuses(WRONG_CALL, "checkpoint", "in their order")
        tidemark(*words, "--strata", path / "l.csv").refuses(WRONG_CALL, "strata", "in their order")
    for share in ("", "x", "0", "-1%", "100%", "1.5", "1%%", "nan"):
        tidemark("profile", source, "--data", samples, "-o", path / "p.json", f"--until-stable={share}").refuses(
            WRONG_CALL, "--until-stable", f"'{share}'")
    for target in ("s.h5", "s"):
        tidemark("profile", source, "--data", samples, "-o", path / "p.json", "--snapshots", path / target).refuses(
            WRONG_CALL, "--snapshots", "FILE.json")
    tidemark("profile", source, "--data", samples, "-o", path / "p.json", "--snapshots", path / "p.json").refuses(
        WRONG_CALL, "same file")
    tidemark("profile", source, "--data", samples, "-o", path / "p.json", "--snapshots", path / "no/where.json").expect(4)
    assert files(path) == before, files(path)


main()
