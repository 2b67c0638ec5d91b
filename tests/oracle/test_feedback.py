# SPDX-License-Identifier: Apache-2.0
"""A speech model whose LSTM states go from frame to frame (`--feedback`), against ONNX Runtime stepped by hand."""
import json

from oracle import graph_inputs, main, model_of, np, onnx, present, session, sources, tidemark
from test_ranges import Comparison, compare_all, every_value, figures

NAME, = present("dtln_lstm")
MODEL = onnx.load(model_of(NAME))
(FRAME, STATE), (MASK, NEXT) = graph_inputs(MODEL), [output.name for output in MODEL.graph.output]
LOOP = ["--feedback", f"{NEXT}={STATE}"]
TOLERANCE = 1e-4  # of the range of a value


def recorded():
    """The frames, and the states that came with the model."""
    with np.load(sources(NAME)[0]) as arrays:
        return arrays[FRAME], arrays[STATE]


FRAMES = len(recorded()[0])
SEQUENCE = FRAMES // 5


def by_hand(frames, sequence, first=None):
    """Every float value at every step, by name."""
    run, seen = every_value(MODEL), {}
    begin = np.zeros_like(recorded()[1][0]) if first is None else first
    for i, frame in enumerate(frames):
        for name, array in run({FRAME: frame, STATE: begin if i % sequence == 0 else seen[NEXT][-1]}).items():
            seen.setdefault(name, []).append(array)
    return seen


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


def test_ranges_of_every_value_over_several_sequences(path):
    frames = recorded()[0]
    np.save(path / "frames.npy", frames)
    for sequence in (SEQUENCE, 37, FRAMES):
        made = profiled(path, "--data", path / "frames.npy", "--reset", f"every={sequence}")
        assert made["ledger"]["run"] == FRAMES
        compare_all(Comparison(f"sequences of {sequence}", FRAMES), made,
                    {name: figures(arrays) for name, arrays in by_hand(frames, sequence).items()})


def test_outputs_step_by_step(path):
    frames = recorded()[0]
    seen = by_hand(frames, SEQUENCE)
    np.save(path / "frames.npy", frames)
    np.save(path / "nested.npy", frames.reshape(FRAMES // SEQUENCE, SEQUENCE, *frames.shape[1:]))
    for data, rule in (("frames.npy", f"every={SEQUENCE}"), ("nested.npy", "source")):
        tidemark("run", model_of(NAME), "--data", path / data, *LOOP, "--reset", rule, "-o", path / "made.npz")
        with np.load(path / "made.npz") as made:
            assert set(made) == {MASK, NEXT}
            for name in made:
                close(made[name], np.stack(seen[name]), f"{name}, {rule}")


def test_states_equal_the_recorded_ones(path):
    frames, states = recorded()
    run = session(MODEL)
    masks = np.stack([run.run([MASK], {FRAME: frame, STATE: state})[0] for frame, state in zip(frames, states)])
    np.save(path / "frames.npy", frames)
    tidemark("run", model_of(NAME), "--data", path / "frames.npy", *LOOP, "-o", path / "made.npz")
    with np.load(path / "made.npz") as made:
        close(made[NEXT][:-1], states[1:], "states")
        close(made[MASK], masks, "masks")


def test_initial_state_can_be_given(path):
    frames, states = recorded()
    np.save(path / "frames.npy", frames[:60])
    np.save(path / "state.npy", states[FRAMES // 2:])
    words = ["--data", f"{FRAME}={path / 'frames.npy'}", "--data", f"{STATE}={path / 'state.npy'}"]
    made = profiled(path, *words, "--reset", "every=20")
    compare_all(Comparison("a given first state", 60), made,
                {name: figures(arrays) for name, arrays in by_hand(frames[:60], 20, states[FRAMES // 2]).items()})


main()
