# SPDX-License-Identifier: Apache-2.0
"""Instrumented models are valid ONNX, and ONNX Runtime gives the original's outputs for them."""
from oracle import main, model_names, model_of, np, onnx, present, samples, session, tidemark

DOMAIN, OBSERVER = "ai.tidemark", "EdgeObserver"


def observers(graph):
    """Those of a graph and its sub-graphs."""
    for node in graph.node:
        if (node.domain, node.op_type) == (DOMAIN, OBSERVER):
            yield node
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from observers(inner)


def attributes(node):
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def relative_difference(x, y):
    if x.tobytes() == y.tobytes():
        return 0.0
    x, y = x.astype(np.float64), y.astype(np.float64)
    return float(np.max(np.abs(x - y)) / (np.ptp(x) or 1))


def same_outputs(name, original, instrumented, exact):
    """The same bits; or, where `exact` is false, as near as another kernel of the runtime's comes: it multiplies by weights
    that pass through a node otherwise than by those that it may pack in advance. Answers the worst relative difference."""
    worst = 0.0
    one, two = session(original), session(instrumented)
    assert [o.name for o in one.get_outputs()] == [o.name for o in two.get_outputs()], name
    assert [(i.name, i.type, i.shape) for i in one.get_inputs()] == [(i.name, i.type, i.shape) for i in two.get_inputs()], name
    for feed in samples(name, 4):
        expected, got = one.run(None, feed), two.run(None, feed)
        for x, y in zip(expected, got, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape), name
            worst = max(worst, relative_difference(x, y))
        assert worst <= (0 if exact else 1e-5), f"{name}: outputs differ by {worst:.2e} of their range"
    return worst


def test_every_value_of_every_model_is_observed(path):
    for name in model_names():
        target = path / "observed.onnx"
        tidemark("instrument", model_of(name), "-o", target, "--quiet")
        onnx.checker.check_model(str(target), full_check=True)
        original, observed = onnx.load(model_of(name)), onnx.load(target)
        found = [attributes(node) for node in observers(observed.graph)]
        assert sorted(a["profile_id"] for a in found) == list(range(len(found))), name
        names = {a["tensor_name"].decode() for a in found}
        wanted = {i.name for i in (*original.graph.input, *original.graph.initializer)}
        wanted |= {output for node in original.graph.node for output in node.output if output}
        assert names >= wanted, f"{name}: no observer on {sorted(wanted - names)[:5]}"
        assert any(p.domain == DOMAIN for p in observed.opset_import), name
        everywhere = same_outputs(name, model_of(name), target, exact=False)
        tidemark("instrument", model_of(name), "-o", target, "--quiet", "--observe", "activations")
        same_outputs(name, model_of(name), target, exact=True)
        print(f"  {name}: {len(found)} observers: outputs differ by {everywhere:.1e} of their range; those on"
              " activations change no bit", flush=True)


def test_every_observer_kind_runs_in_onnx_runtime(path):
    for name in present("digits", "squeezenet10", "char_gpt"):
        for words in (["--kind", "range"], ["--kind", "guard"], ["--kind", "print"], ["--observe", "weights"],
                      ["--observe", "activations"]):
            target = path / "observed.onnx"
            tidemark("instrument", model_of(name), "-o", target, "--quiet", *words)
            onnx.checker.check_model(str(target), full_check=True)
            if words[0] == "--kind":
                assert {attributes(n)["kind"].decode() for n in observers(onnx.load(target).graph)} == {words[1]}
            same_outputs(name, model_of(name), target, exact=words[1] == "activations")


main()
