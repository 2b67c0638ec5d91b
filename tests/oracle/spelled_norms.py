# SPDX-License-Identifier: Apache-2.0
"""A network of normalizations that are spelled out, and of MatMul with a bias, in the forms that AIMET fuses."""
import numpy as np
import onnx

WIDTH = 16
FUSED = {f"{place}_{part}" for place, parts in {
    "layer": "mean x square var eps root quotient scaled", "rms": "square var eps root inverse quotient", "bare": "square var eps power",
    "cast": "square var eps root inverse quotient cast", "half": "square var eps root", "fc": "product", "turned": "product weights",
}.items() for part in parts.split()}


def spelled_norms():
    helper, rng, nodes = onnx.helper, np.random.default_rng(3), []
    stored = {"two": np.array(2), "one": np.array(1), "less": np.array(-.5), "eps": np.array(1e-3), "scale": rng.uniform(.5, 2, WIDTH),
              "bias": rng.standard_normal(WIDTH), "w": rng.standard_normal((WIDTH, WIDTH)), "used": np.array(1e-2)}

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs.split(), [output], output, **attributes))
        return output

    def mean_square(name, x, eps="eps", power=True):
        node(*(("Pow", f"{x} two") if power else ("Mul", f"{x} {x}")), f"{name}_square")
        node("ReduceMean", f"{name}_square", f"{name}_var", axes=[-1])
        return node("Add", f"{name}_var {eps}", f"{name}_eps")

    def root(name, x, **how):
        return node("Sqrt", mean_square(name, x, **how), f"{name}_root")
    node("ReduceMean", "x", "layer_mean", axes=[-1])
    node("Div", f"{node('Sub', 'x layer_mean', 'layer_x')} {root('layer', 'layer_x')}", "layer_quotient")
    node("Add", f"bias {node('Mul', 'layer_quotient scale', 'layer_scaled')}", "layer")
    node("Add", f"{node('MatMul', 'layer w', 'fc_product')} bias", "fc")
    node("Mul", f"fc {node('Reciprocal', root('rms', 'fc', power=False), 'rms_inverse')}", "rms_quotient")
    node("Mul", "scale rms_quotient", "rms")
    node("Add", f"bias {node('MatMul', 'rms ' + node('Transpose', 'w', 'turned_weights', perm=[1, 0]), 'turned_product')}", "turned")
    node("Mul", f"{node('Pow', mean_square('bare', 'turned') + ' less', 'bare_power')} turned", "bare")
    node("Cast", "bare", "cast_x", to=1)
    node("Mul", f"{node('Div', 'one ' + root('cast', 'cast_x'), 'cast_inverse')} cast_x", "cast_quotient")
    node("Mul", f"{node('Cast', 'cast_quotient', 'cast_cast', to=1)} scale", "cast")
    node("Div", f"cast {root('half', 'cast', eps='used')}", "half")
    node("Div", f"half {root('read', 'half')}", "read")  # not fused: another node reads its root
    node("Add", f"read {node('Mul', 'read_root used', 'other')}", "y")
    arrays = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in stored.items()]
    ends = [[helper.make_tensor_value_info(name, 1, [1, 6, WIDTH])] for name in "xy"]
    return helper.make_model(helper.make_graph(nodes, "g", *ends, arrays), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples():
    return np.random.default_rng(4).standard_normal((8, 1, 6, WIDTH)).astype(np.float32)
