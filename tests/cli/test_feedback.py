# SPDX-License-Identifier: Apache-2.0
"""`--feedback OUT=IN` and `--reset`: models whose state goes from step to step.

The model adds its input to a running sum, in whole numbers, so that every figure is known exactly.
"""
import json

import onnx_bytes as onnx
from cli import BAD_INPUT, DONE, WRONG_CALL, main, npy_bytes, tensors_of, tidemark
from kills import Kills
from merge_shards import read_floats
from runs import assert_equal, check_shards, labels_file, profile, read, strata_of
from running_sum import LOOP, STEPS, WIDTH, numbers, running_sum, save

def by_hand(rows, begins, first=None):
    """What each value was at each step: (sample, numbers); `begins`: whether a sequence begins at a sample."""
    seen = {"x": [], "before": [], "total": [], "doubled": []}
    state = None
    for sample, row in rows:
        if begins(sample) or state is None:
            state = first or [0] * len(row)
        seen["x"].append((sample, row))
        seen["before"].append((sample, state))
        state = [a + b for a, b in zip(row, state, strict=True)]
        seen["total"].append((sample, state))
        seen["doubled"].append((sample, [2 * number for number in state]))
    return seen


def compare(target, seen):
    records = tensors_of(read(target))
    assert set(records) == set(seen), set(records)
    for name, steps in seen.items():
        record, flat = records[name], [number for _, step in steps for number in step]
        wanted = {"count": len(flat), "updates": len(steps), "samples": len(steps), "min": min(flat), "max": max(flat),
                  "sum": sum(flat), "zeros": flat.count(0)}
        assert {key: record[key] for key in wanted} == wanted, (name, {key: record[key] for key in wanted}, wanted)
        for key, best in (("min", min(flat)), ("max", max(flat))):
            sample, index = next((sample, step.index(best)) for sample, step in steps if best in step)
            assert record[f"{key}_at"] == {"sample": sample, "index": index}, (name, key, record[f"{key}_at"])


def test_ranges_equal_a_computation_step_by_step(path):
    rows = numbers()
    words = [running_sum(path), "--data", save(path / "x.npy", rows), *LOOP]
    for rule in (None, "never", *(f"every={n}" for n in (1, 7, 20, 59, 60, 1000))):
        for more, chosen in (([], range(STEPS)), (["--limit", 33], range(33)), (["--skip", 10], range(10, STEPS))):
            every = int(rule[6:]) if rule and rule.startswith("every=") else STEPS
            profile(path / "p", *words, *more, *(["--reset", rule] if rule else []))
            compare(path / "p", by_hand([(s, rows[s]) for s in chosen], lambda s, every=every: s % every == 0))
    said = json.loads((path / "p.json").read_text())
    assert said["settings"]["feedback"] == "total=before" and said["settings"]["reset"] == "every=1000", said["settings"]
    assert [source["input"] for source in said["data"]] == ["x"], said["data"]


def test_threads_do_not_change_the_profile(path):
    words = [running_sum(path), "--data", save(path / "x.npy", numbers(3000)), *LOOP]
    for rule, many in (("never", 2), ("every=1", 4), ("every=10", 2), ("every=10", 4), ("every=1001", 4)):
        for threads in (1, many):
            profile(path / f"t{threads}", *words, "--reset", rule, "--threads", threads)
        assert_equal(path / "t1", path / f"t{many}")


def test_outputs_equal_a_computation_step_by_step(path):
    rows = numbers()
    words = ["run", running_sum(path), "--data", save(path / "x.npy", rows), *LOOP, "--reset", "every=7"]
    tidemark(*words, "--values", "total", "-o", path / "y.npy").expect(DONE)
    want = [step for _, step in by_hand(list(enumerate(rows)), lambda s: s % 7 == 0)["total"]]
    shape, data = read_floats(path / "y.npy")
    assert shape == (STEPS, WIDTH) and data == npy_bytes(shape, [n for step in want for n in step])[-len(data):]


def test_initial_state_can_be_given(path):
    rows = numbers()
    words = [running_sum(path), "--data", f"x={save(path / 'x.npy', rows)}", *LOOP, "--reset", "every=25"]
    for shape, values in (([1, 2], [[5, -40]]), ([2, 1, 2], [[5, -40], [7, 7]])):  # of several, the first
        profile(path / "p", *words, "--data", f"before={save(path / 's.npy', values, shape)}")
        compare(path / "p", by_hand(list(enumerate(rows)), lambda s: s % 25 == 0, [5, -40]))
    sources = json.loads((path / "p.json").read_text())["data"]
    assert [source["input"] for source in sources] == ["x", "before"], sources


def test_nested_arrays_are_sequences(path):
    rows, model = numbers(), running_sum(path)
    nested = save(path / "nested.npy", rows, [12, 5, WIDTH])
    profile(path / "p", model, "--data", nested, *LOOP, "--reset", "source")
    compare(path / "p", by_hand(list(enumerate(rows)), lambda s: s % 5 == 0))
    check_shards(path, [model, "--data", nested, *LOOP, "--reset", "source"], counts=(13,))
    nested = save(path / "nested.npy", rows, [12, 5, 1, WIDTH])
    profile(path / "p", model, "--data", nested, *LOOP, "--reset", "source", "--skip", 5, "--limit", 43)
    compare(path / "p", by_hand([(s, rows[s]) for s in range(5, 48)], lambda s: s % 5 == 0))


def test_each_record_of_a_stream_is_a_sequence(path):
    rows, lengths, begins = numbers(), (1, 20, 3, 3, 33), {0, 1, 21, 24, 27}
    ends = [sum(lengths[:i + 1]) for i in range(len(lengths))]
    records = b"".join(npy_bytes([n, WIDTH], [v for row in rows[end - n:end] for v in row])
                       for n, end in zip(lengths, ends, strict=True))
    words = ["profile", "--quiet", running_sum(path), "--data", "-", *LOOP]
    for rule, threads, first in (("source", 1, begins), ("source", 3, begins), ("never", 2, {0}),
                                 ("every=20", 2, {0, 20, 40})):
        tidemark(*words, "--reset", rule, "-t", threads, "-o", path / "p.json", input=records).expect(DONE)
        compare(path / "p", by_hand(list(enumerate(rows)), lambda s, first=first: s in first))


def test_steps_may_have_several_samples(path):
    rows = numbers(96, 1)
    model = running_sum(path, first=4, width=0)
    words = [model, "--data", save(path / "x.npy", rows, [96]), *LOOP]
    profile(path / "p", *words, "--reset", "every=32")
    steps = [(4 * i, [row[0] for row in rows[4 * i:4 * i + 4]]) for i in range(24)]
    seen = by_hand(steps, lambda s: s % 32 == 0)
    records = tensors_of(path / "p.json")
    for name, made in seen.items():
        flat = [number for _, step in made for number in step]
        assert [records[name][key] for key in ("count", "updates", "samples", "min", "max", "sum")] == \
            [96, 24, 96, min(flat), max(flat), sum(flat)], (name, records[name])
    check_shards(path, [*words, "--reset", "every=12"], counts=(5,))
    tidemark("profile", *words, "--reset", "every=6", "-o", path / "no.json").refuses(WRONG_CALL, "6 samples", "4 at a time")


def test_state_may_grow(path):
    nodes = [onnx.node("Concat", ["past", "x"], ["present"], axis=0),
             onnx.node("ReduceSum", ["present"], ["sum"], keepdims=0)]
    (path / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("past", ["P", 2]), onnx.value("x", [1, 2])],
                                             [onnx.value("sum", []), onnx.value("present", ["Q", 2])]))
    rows = numbers(12)
    words = ["profile", path / "m.onnx", "--data", save(path / "x.npy", rows), "--feedback", "present=past"]
    tidemark(*words, "-o", path / "p.json").refuses(WRONG_CALL, "dimension 0 of 'past' is free", "--dim P=N")
    tidemark(*words, "--dim", "P=0", "--reset", "every=5", "-o", path / "p.json").expect(DONE)
    records = tensors_of(path / "p.json")
    shapes = {tuple(one["shape"]): one["runs"] for one in records["present"]["observed_shapes"]}
    assert shapes == {(1, 2): 3, (2, 2): 3, (3, 2): 2, (4, 2): 2, (5, 2): 2}, shapes
    sums = [sum(map(sum, rows[i - i % 5:i + 1])) for i in range(12)]
    assert (records["sum"]["min"], records["sum"]["max"]) == (min(sums), max(sums)), records["sum"]


def test_state_may_end(path):
    """What has no elements is fed back as it is."""
    nodes = [onnx.node("Slice", ["past", "one", "many", "zero"], ["present"]), onnx.node("ReduceSum", ["x"], ["sum"], keepdims=0)]
    bounds = [onnx.tensor(name, [1], [number], onnx.INT64) for name, number in (("one", 1), ("many", 9), ("zero", 0))]
    (path / "m.onnx").write_bytes(onnx.model(nodes, [onnx.value("past", ["P", 2]), onnx.value("x", [1, 2])],
                                             [onnx.value("sum", []), onnx.value("present", ["Q", 2])], bounds))
    tidemark("profile", path / "m.onnx", "--data", save(path / "x.npy", numbers(6)), "--feedback", "present=past", "--dim", "P=2",
             "-o", path / "p.json").expect(DONE)
    shapes = {tuple(one["shape"]): one["runs"] for one in tensors_of(path / "p.json")["past"]["observed_shapes"]}
    assert shapes == {(2, 2): 1, (1, 2): 1, (0, 2): 4}, shapes


def test_merged_shards_equal_the_run(path):
    words = [running_sum(path), "--data", save(path / "x.npy", numbers(100)), *LOOP]
    for rule, more, counts in (("every=9", [], (2, 7)), ("every=40", ["--skip", 13], (3,)), ("every=9", ["--limit", 50], (7,))):
        check_shards(path, [*words, "--reset", rule, *more], counts)
    profile(path / "p", *words, "--reset", "every=40", "--shard", "2/3")
    assert json.loads((path / "p.json").read_text())["coverage"]["ranges"] == [[40, 80]]


def test_killed_runs_resume_to_equal_profiles(path):
    words = [running_sum(path, width=64), "--data", save(path / "x.npy", numbers(30000, 64)), *LOOP, "--reset", "every=500"]
    kills = Kills(path, words, 1).go(5)
    return f"killed {kills.killed} times, went on {kills.resumed} times"


def test_checkpoints_do_not_change_the_profile(path):
    words = [running_sum(path), "--data", save(path / "x.npy", numbers()), *LOOP, "--reset", "every=6"]
    profile(path / "whole", *words)
    profile(path / "p", *words, "--checkpoint", path / "c", "--every", "0.0001s")
    assert_equal(path / "p", path / "whole")


def test_sequences_are_counted_in_their_strata(path):
    rows, model = numbers(), running_sum(path)
    words = [model, "--data", save(path / "x.npy", rows), *LOOP, "--reset", "every=6"]
    labels = labels_file(path / "l.csv", [s // 6 % 3 for s in range(STEPS)])
    profile(path / "whole", *words)
    for more in (["--threads", 1], ["--threads", 4], ["--checkpoint", path / "c", "--every", "0.0001s"]):
        profile(path / "p", *words, "--strata", labels, *more)
        assert_equal(path / "p", path / "whole")
        assert sorted(strata_of(path / "p")) == list("012")
        for label, target in strata_of(path / "p").items():
            compare(target, by_hand([(s, rows[s]) for s in range(STEPS) if s // 6 % 3 == int(label)], lambda s: s % 6 == 0))
    for rule in ("never", "every=12"):
        tidemark("profile", "-q", *words[:-1], rule, "--strata", labels, "-o", path / "no.json").refuses(
            BAD_INPUT, "l.csv: sample 6 is '1', but continues a sequence that is '0'")
    command = ["profile", "-q", model, "--data", "-", *LOOP, "--reset", "source", "--strata", labels, "-o", path / "s.json"]
    for length, wanted in ((6, DONE), (10, BAD_INPUT)):
        records = b"".join(npy_bytes([length, WIDTH], [v for row in rows[s:s + length] for v in row])
                           for s in range(0, STEPS, length))
        done = tidemark(*command, input=records).expect(wanted)
        assert ("sample 6 is '1', but continues" in done.err) == (wanted == BAD_INPUT), done
    assert sorted(strata_of(path / "s")) == list("012")
    for label, target in strata_of(path / "s").items():
        compare(target, by_hand([(s, rows[s]) for s in range(STEPS) if s // 6 % 3 == int(label)], lambda s: s % 6 == 0))


def test_snapshots_are_taken_between_sequences(path):
    words = [running_sum(path), "--data", save(path / "x.npy", numbers()), *LOOP, "--reset", "every=5"]
    profile(path / "plain", *words)
    profile(path / "p", *words, "--snapshots", path / "s.json")
    assert_equal(path / "p", path / "plain")
    assert [s["offered"] for s in json.loads((path / "s.json").read_text())["snapshots"]] == [5, 10, 20, 35, 60]


def test_a_plan_has_no_more_workers_than_sequences(path):
    words = ["profile", running_sum(path), "--data", save(path / "x.npy", numbers()), *LOOP, "--plan", "--threads", 4]
    for rule, workers in (("never", "1 worker"), ("every=30", "2 workers"), ("every=20", "3 workers"), ("every=5", "4 workers")):
        said = tidemark(*words, "--reset", rule).expect(DONE).out
        assert said.startswith(workers), (rule, said)


def test_nan_is_inherited_from_the_step_before(path):
    rows = numbers(40)
    rows[11][1] = rows[23][0] = float("nan")
    words = ["profile", running_sum(path), "--data", save(path / "x.npy", rows), *LOOP, "--reset", "every=8"]
    tidemark(*words, "-o", path / "p.json").expect(DONE)
    said = {value["name"]: value for value in json.loads(tidemark("show", path / "p.json", "--json").expect(DONE).out)}
    ids = {name: value["id"] for name, value in said.items()}
    assert said["x"]["nonfinite"] == {"origin": True}, said["x"]
    assert said["before"]["nonfinite"] == {"inherits": [ids["total"]]}, said["before"]
    for threads in (1, 2, 4):
        tidemark(*words, "--nan=fail", "-t", threads, "--quiet", "-o", path / "no.json").expect(1, "sample 11, element 1")


def test_show_prints_the_number_of_updates(path):
    tidemark("profile", running_sum(path), "--data", save(path / "x.npy", numbers()), *LOOP, "-o", path / "p.json").expect(DONE)
    tidemark("show", path / "p.json", "total").expect(DONE, f"{STEPS} times in {STEPS} samples")
    assert all(value["updates"] == STEPS for value in json.loads(tidemark("show", path / "p.json", "--json").out))


def test_unsupported_combinations_are_refused(path):
    model, data = running_sum(path), save(path / "x.npy", numbers())
    nodes = [onnx.node("Add", ["x", "a"], ["y"]), onnx.node("Add", ["x", "b"], ["z"]),
             onnx.node("Concat", ["y", "z"], ["wide"], axis=1)]
    inputs = [onnx.value("x", [1, 2]), onnx.value("a", [1, 2]), onnx.value("b", [1, 2])]
    outputs = [onnx.value("y", [1, 2]), onnx.value("z", [1, 2]), onnx.value("wide", [1, 4])]
    (path / "two.onnx").write_bytes(onnx.model(nodes, inputs, outputs))
    nodes = [onnx.node("Concat", ["a", "x"], ["y"], axis=0)]
    (path / "grows.onnx").write_bytes(onnx.model(nodes, [onnx.value("a", [1, 2]), onnx.value("x", [1, 2])],
                                                 [onnx.value("y", ["M", 2])]))

    def refuses(words, *texts, model=model, status=WRONG_CALL, data=data):
        tidemark("profile", model, "--data", data, *words, "--quiet", "-o", path / "no.json").refuses(status, *texts)
        assert not (path / "no.json").exists()

    refuses(["--feedback", "total"], "OUT=IN", "'total'")
    refuses(["--feedback", "missing=before"], "no output", "'doubled'")
    refuses(["--feedback", "total=missing"], "no input")
    refuses(["--feedback", "total=x", *LOOP], "every input is fed back")
    refuses([*LOOP, "--feedback", "doubled=before"], "'before' is fed back already")
    refuses(["--feedback", "y=a", "--feedback", "wide=b"], "float32[1,4]", "float32[1,2]", model=path / "two.onnx")
    refuses(["--feedback", "y=a"], "'b' has no data", model=path / "two.onnx", data=f"x={data}")
    refuses(["--feedback", "y=a"], "sample 0", "'y' is float32[2,2]", "'a'", model=path / "grows.onnx", status=BAD_INPUT)
    refuses(["--reset", "every=3"], "--reset goes with --feedback")
    for rule in ("every", "every=", "every=0", "every=-1", "every=2x", "every=99999999999999999999", "sometimes", ""):
        refuses([*LOOP, "--reset", rule], "never, every=N (samples) or source", f"'{rule}'")
    refuses([*LOOP, "--reset", "source"], "x.npy: input 'x' has shape", status=BAD_INPUT)
    refuses([*LOOP, "--batch", 2], "--batch 2", "one step")
    refuses([*LOOP, "--sample-every", 2], "--sample-every")
    refuses([*LOOP, "--on-bad-sample=skip"], "--on-bad-sample=skip")
    refuses([*LOOP, "--shard", "1/2"], "one process", "--reset")
    refuses([*LOOP, "--checkpoint", path / "c"], "between sequences", "--reset")
    refuses([*LOOP, "--data", "before=-"], "'before' is fed back", data=f"x={data}")
    save(path / "s.npy", [[1, 2, 3]])
    refuses([*LOOP, "--data", f"before={path / 's.npy'}"], "before", data=f"x={data}", status=BAD_INPUT)
    refuses([*LOOP, "--reset", "source"], "input 'x' has shape [?,2], but the data has [1,0]", status=BAD_INPUT,
            data=save(path / "two.npy", [], [2, 3, 0]))


if __name__ == "__main__":
    main()
