# SPDX-License-Identifier: Apache-2.0
"""A speech model whose LSTM states go from frame to frame (`--feedback`), against ONNX Runtime stepped by hand.

usage: test_feedback.py PROGRAM SOURCE_ROOT FEATURES
"""
import json

from oracle import MODELS, LeftOut, folder, graph_inputs, main, model_of, np, onnx, session, tidemark
from test_ranges import Comparison, compare_all

NAME, FRAMES, SEQUENCE = "dtln_lstm", 400, 80
LOOP = ["--feedback", "tf_op_layer_stack_2=input_3"]
TOLERANCE = 1e-4  # of the range of a value


def recorded():
    """The frames, and the states and outputs that came with the model."""
    path = MODELS / NAME / "inputs_400.npz"
    if not path.is_file():
        raise LeftOut(f"there is no {path}")
    with np.load(path) as arrays:
        return arrays["input_2"], arrays["input_3"], arrays["mask"]


def by_hand(frames, sequence, first=None):
    """Every float value at every step, by name."""
    model = onnx.load(model_of(NAME))
    assert graph_inputs(model) == ["input_2", "input_3"]
    outputs = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for node in model.graph.node for name in node.output
                              if name and name not in outputs)
    runner = session(model)
    names = [output.name for output in runner.get_outputs()]
    begin = np.zeros((1, 2, 128, 2), np.float32) if first is None else first
    seen = {}
    for i, frame in enumerate(frames):
        feed = {"input_2": frame, "input_3": begin if i % sequence == 0 else seen["tf_op_layer_stack_2"][-1]}
        made = dict(zip(names, runner.run(None, feed), strict=True))
        for name, array in {**feed, **made}.items():
            if array.dtype == np.float32:
                seen.setdefault(name, []).append(array)
    return seen


def figures(arrays):
    flat = np.concatenate([array.ravel() for array in arrays])
    finite = flat[np.isfinite(flat)]
    return {"count": flat.size, "nan": int(np.isnan(flat).sum()), "posinf": int((flat == np.inf).sum()),
            "neginf": int((flat == -np.inf).sum()), "zeros": int((flat == 0).sum()), "min": float(finite.min()),
            "max": float(finite.max())}


def profiled(path, *words):
    """The profile, which one, two and four threads make alike."""
    made = []
    for threads in (1, 2, 4):
        target = path / f"{threads}.json"
        tidemark("profile", model_of(NAME), *words, *LOOP, "--quiet", "--threads", threads, "-o", target)
        made.append(target.read_bytes())
    assert made[0] == made[1] == made[2]
    return json.loads(made[0])


def close(ours, theirs, what):
    worst = float(np.abs(ours - theirs).max()) / float(theirs.max() - theirs.min())
    print(f"  {what}: {worst:.1e} of the range", flush=True)
    assert ours.shape == theirs.shape and worst <= TOLERANCE, f"{what}: {worst}"


def test_ranges_of_every_value_over_several_sequences():
    frames = recorded()[0]
    with folder() as path:
        np.save(path / "frames.npy", frames)
        for sequence in (SEQUENCE, 37, FRAMES):
            made = profiled(path, "--data", path / "frames.npy", "--reset", f"every={sequence}")
            assert made["ledger"]["run"] == FRAMES
            compare_all(Comparison(f"sequences of {sequence}", FRAMES), made,
                        {name: figures(arrays) for name, arrays in by_hand(frames, sequence).items()})


def test_outputs_step_by_step():
    frames = recorded()[0]
    seen = by_hand(frames, SEQUENCE)
    with folder() as path:
        np.save(path / "frames.npy", frames)
        np.save(path / "nested.npy", frames.reshape(FRAMES // SEQUENCE, SEQUENCE, *frames.shape[1:]))
        for data, rule in (("frames.npy", f"every={SEQUENCE}"), ("nested.npy", "source")):
            tidemark("run", model_of(NAME), "--data", path / data, *LOOP, "--reset", rule, "-o", path / "made.npz")
            with np.load(path / "made.npz") as made:
                assert set(made) == {"activation_2", "tf_op_layer_stack_2"}
                for name in made:
                    close(made[name], np.stack(seen[name]), f"{name}, {rule}")


def test_states_are_those_that_were_recorded():
    frames, states, masks = recorded()
    with folder() as path:
        np.save(path / "frames.npy", frames)
        tidemark("run", model_of(NAME), "--data", path / "frames.npy", *LOOP, "-o", path / "made.npz")
        with np.load(path / "made.npz") as made:
            close(made["tf_op_layer_stack_2"][:-1], states[1:], "states")
            close(made["activation_2"], masks, "masks")


def test_a_first_state_that_is_given():
    frames, states, _ = recorded()
    with folder() as path:
        np.save(path / "frames.npy", frames[:60])
        np.save(path / "state.npy", states[200:])
        words = ["--data", f"input_2={path / 'frames.npy'}", "--data", f"input_3={path / 'state.npy'}"]
        made = profiled(path, *words, "--reset", "every=20")
        compare_all(Comparison("a given first state", 60), made,
                    {name: figures(arrays) for name, arrays in by_hand(frames[:60], 20, states[200]).items()})


if __name__ == "__main__":
    main(globals())
