# SPDX-License-Identifier: Apache-2.0
"""`tidemark bench`: which figures there are and how they are printed; their size depends on the machine and is not tested."""
import json

from cli import BAD_INPUT, DIGITS, DONE, PICTURES, WRONG_CALL, main, tidemark

FIGURES = ["bare", "minmax", "ranges", "histograms"]
SHORT = ["bench", DIGITS, "--data", PICTURES, "--limit", 50, "--repeat", 1, "--seconds", 0]


def figures(*more):
    return {figure["what"]: figure for figure in json.loads(tidemark(*SHORT, *more, "--json").expect(DONE).out)["figures"]}


def test_table_has_a_line_per_figure():
    done = tidemark(*SHORT).expect(DONE, "samples/s", "MiB a worker", "peak")
    named = [line.split()[0] for line in done.out.splitlines()[1:]]
    assert not done.err and named == [name for name in FIGURES if name in named], done
    assert {"bare", "ranges", "histograms"} <= set(named), done


def test_json_equals_the_table():
    printed = [line.split()[0] for line in tidemark(*SHORT).out.splitlines()[1:]]
    found = figures("--threads", 2)
    assert list(found) == printed
    for figure in found.values():
        assert figure["samples_per_s"] > 0 and figure["threads"] == 2
        assert figure["samples"] == 50 > figure["batches"]
        assert 0 < figure["arena_bytes"] < figure["peak_bytes"]
    assert found["bare"]["cost_percent"] == 0


def test_per_op_lists_each_step():
    done = tidemark(*SHORT, "--per-op").expect(DONE, "observing", "operators", "a sample")
    assert not done.err, done
    alone = [*SHORT, "--batch", 1, "--figure", "bare", "--per-op", "--json"]
    steps = json.loads(tidemark(*alone).expect(DONE).out)["per_op"]
    assert any("Conv" in step["what"] for step in steps), steps
    assert all(step["runs"] == 50 and step["ms_per_sample"] >= 0 and step["observe_ms_per_sample"] == 0 for step in steps), steps


def test_peaks_only_grow():
    peaks = [figure["peak_bytes"] for figure in figures().values()]
    assert peaks == sorted(peaks), peaks


def test_single_figures_can_be_selected():
    assert list(figures("--figure", "histograms")) == ["histograms"]
    assert figures("--figure", "ranges")["ranges"]["cost_percent"] is None, "there is no bare run to compare with"
    assert list(figures("--figure", "histograms", "--figure", "bare", "--figure", "bare")) == ["bare", "histograms"]


def test_thinned_histograms_are_a_figure_where_they_are_asked_for():
    assert list(figures("--histogram-share", "1/8")) == ["bare", "minmax", "thinned", "ranges", "histograms"]
    assert list(figures("--histogram-share", "1/8", "--figure", "thinned")) == ["thinned"]
    tidemark(*SHORT, "--figure", "thinned").refuses(WRONG_CALL, "thinned")
    tidemark(*SHORT, "--histogram-share", "8").refuses(WRONG_CALL, "1/1 to 1/64")


def test_batches_are_counted():
    assert figures("--batch", 1)["bare"]["batches"] == 50
    assert figures("--batch", 20)["bare"]["batches"] == 3


def test_short_data_is_repeated():
    done = tidemark("bench", DIGITS, "--data", PICTURES, "--limit", 1, "--repeat", 2, "--seconds", 0.1, "--json").expect(DONE)
    for figure in json.loads(done.out)["figures"]:
        assert figure["samples"] == 1 and figure["samples_per_s"] > 0


def test_usage_errors_and_bad_input_are_reported(path):
    for words in (["--repeat", 0], ["--seconds", "-1"], ["--figure", "median"]):
        tidemark("bench", DIGITS, "--data", PICTURES, *words).refuses(WRONG_CALL, words[0])
    tidemark("bench", DIGITS).refuses(WRONG_CALL, "image", "--data")
    (path / "broken.npy").write_bytes(PICTURES.read_bytes()[:500])
    tidemark("bench", DIGITS, "--data", path / "broken.npy").refuses(BAD_INPUT, "broken.npy")
    tidemark("bench", path / "absent.onnx", "--data", PICTURES).refuses(BAD_INPUT, "absent.onnx")


main()
