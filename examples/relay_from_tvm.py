# SPDX-License-Identifier: Apache-2.0
"""Reads in TVM (0.8 to 0.19) what `tidemark export --to relay` wrote.

    edges = Edges("out.edges.json")
    module, params = load("out.relay", "out.params")
    for expr, info in annotated(module, edges):
        print(expr.op.name if hasattr(expr, "op") else expr, info["dtype"], info.get("ndom_scale"))
    module = without_annotations(module)

Each info is the entry of out.edges.json: profile_id, name (the original's), kind, dtype, ndom_scale, zero_point, nclip_min,
nclip_max, min, max, or scale_per_channel and zero_points with axis. Without TVM, Edges alone can be used.
"""
import json

OPERATOR = "annotation.quantize_info"


class Edges:
    """The table of edges, by profile ID ("p12"), by original name, and by the name in the text ("%5")."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.table = json.load(file)
        self.values = self.table["values"]

    def by_id(self, profile_id):
        return self.values[profile_id]

    def by_name(self, name):
        return self.values[self.table["names"][name]]

    def by_relay_name(self, name):
        return self.values[self.table["relay_names"][name]]


def register():
    """Makes the annotation an operator of TVM: the identity, with any attributes."""
    from tvm.relay import op

    try:
        return op.get(OPERATOR)
    except Exception:
        op.op.register(OPERATOR, "What a quantizer has to know of an edge; the identity.")
    operator = op.get(OPERATOR)
    operator.set_num_inputs(1)
    operator.add_argument("data", "Tensor", "The edge.")
    operator.set_attrs_type_key("DictAttrs")
    operator.add_type_rel("Identity")
    operator.set_support_level(10)
    op.op.register_pattern(OPERATOR, op.OpPattern.OPAQUE)
    op.op.register_stateful(OPERATOR, False)
    return operator


def load(text_path, params_path):
    """The module, its annotations in place, and the parameters."""
    import tvm
    from tvm import relay

    register()
    parse = getattr(relay, "fromtext", None) or tvm.parser.fromtext
    with open(text_path, encoding="utf-8") as file:
        module = parse(file.read())
    with open(params_path, "rb") as file:
        return module, relay.load_param_dict(bytearray(file.read()))


def _is_annotation(call):
    return getattr(call.op, "name", None) == OPERATOR


def annotated(module, edges):
    """[(expression, info)] of every annotation, in the order of the graph."""
    from tvm import relay

    found = []

    def visit(expr):
        if isinstance(expr, relay.Call) and _is_annotation(expr):
            found.append((expr.args[0], edges.by_id(str(expr.attrs["profile_id"]))))

    relay.analysis.post_order_visit(module["main"], visit)
    return found


def without_annotations(module):
    """The module that was profiled."""
    import tvm
    from tvm import relay

    class Remove(relay.ExprMutator):
        def visit_call(self, call):
            return self.visit(call.args[0]) if _is_annotation(call) else super().visit_call(call)

    return tvm.IRModule.from_expr(Remove().visit(module["main"]))
