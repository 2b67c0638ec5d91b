# SPDX-License-Identifier: Apache-2.0
"""Damage to a parsed ONNX model, so that what comes out parses: names, types, shapes, attributes, weights, the order of nodes.

Each way is a function of (dice, model) that changes the model in place; it may find nothing to change.
"""
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, TensorProto, helper

HUGE = (2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1)
INTEGERS = (0, 1, -1, 2, 3, 5, 7, 16, 64, 1000, -2, -7, 65536, 1 << 20, -2**31, -2**63, *HUGE)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, -3.4e38, float("inf"), float("-inf"), float("nan"), 0.5, 1e9)
NAMES = ("", " ", "a", "x" * 300, "\n", "\x1b[31m", "<script>", "../a", "nul\x00l", "p0", "%s%n", "é", "'\"")
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "ai.tidemark", "own")
ATTRIBUTES = ("axis", "axes", "perm", "pads", "strides", "kernel_shape", "dilations", "group", "to", "keepdims", "blocksize",
              "num_outputs", "split", "hidden_size", "alpha", "mode", "auto_pad", "allowzero", "epsilon", "equation", "value",
              "body", "then_branch", "direction", "num_heads", "output_shape", "ceil_mode", "count_include_pad", "size",
              "num_scan_inputs", "scan_input_axes", "k", "largest", "to", "seed", "dtype", "transA", "layout", "block_size")
OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""})
TYPES = list(range(0, 25)) + [99, -1]


def graphs(model):
    """Every graph of the model, the main one first."""
    found = [model.graph]
    for graph in found:
        for node in graph.node:
            for attribute in node.attribute:
                found += [attribute.g] if attribute.HasField("g") else []
                found += list(attribute.graphs)
    return found


def any_graph(dice, model):
    return dice.choice(graphs(model)) if dice.random() < 0.5 else model.graph


def nodes(model):
    return [node for graph in graphs(model) for node in graph.node] + [n for f in model.functions for n in f.node]


def any_node(dice, model):
    every = nodes(model)
    return dice.choice(every) if every else None


def value_names(model):
    return sorted({name for node in nodes(model) for name in [*node.input, *node.output]} |
                  {v.name for g in graphs(model) for v in [*g.input, *g.initializer]})


def tensors(model):
    found = [t for graph in graphs(model) for t in graph.initializer]
    return found + [a.t for node in nodes(model) for a in node.attribute if a.HasField("t")]


def any_tensor(dice, model):
    every = tensors(model)
    small = [t for t in every if len(t.raw_data) <= 64]  # shapes, axes, scales: what operators are steered by
    return dice.choice(small if small and dice.random() < 0.6 else every) if every else None


def infos(model):
    return [v for graph in graphs(model) for v in [*graph.input, *graph.output, *graph.value_info]]


def any_list(dice, model):
    graph = any_graph(dice, model)
    lists = [graph.input, graph.output, graph.initializer, graph.node, graph.value_info, model.opset_import]
    lists += [n.attribute for n in graph.node] + [n.input for n in graph.node] + [n.output for n in graph.node]
    lists = [one for one in lists if len(one)]
    kinds = lists[:5] if dice.random() < 0.5 else lists
    return dice.choice(kinds) if kinds else None


def drop(dice, model):
    one = any_list(dice, model)
    if one:
        del one[dice.randrange(len(one))]


def duplicate(dice, model):
    one = any_list(dice, model)
    if one:
        one.append(one[dice.randrange(len(one))])


def swap(dice, model):
    one = any_list(dice, model)
    if one and len(one) > 1:
        items = [type(i)() if not isinstance(i, str) else i for i in one]
        for copy, item in zip(items, one, strict=True):
            if not isinstance(copy, str):
                copy.CopyFrom(item)
        i, j = dice.sample(range(len(items)), 2)
        items[i], items[j] = items[j], items[i]
        del one[:]
        one.extend(items)


def rename(dice, model):
    """One occurrence of a name becomes another: a value that is not there, one that is, a hostile one."""
    node = any_node(dice, model)
    if not node:
        return
    target = dice.choice([node.input, node.output, None])
    name = dice.choice(NAMES) if dice.random() < 0.3 else dice.choice(value_names(model) or [""])
    if target is None:
        thing = dice.choice([*infos(model), *(t for g in graphs(model) for t in g.initializer), node])
        thing.name = name
    elif len(target):
        target[dice.randrange(len(target))] = name


def rename_everywhere(dice, model):
    names = value_names(model)
    if not names:
        return
    old, new = dice.choice(names), dice.choice(NAMES + ("very" * 3000,))
    for node in nodes(model):
        for one in (node.input, node.output):
            for i, name in enumerate(one):
                if name == old:
                    one[i] = new
    for thing in [*infos(model), *(t for g in graphs(model) for t in g.initializer)]:
        if thing.name == old:
            thing.name = new


def cycle(dice, model):
    graph = any_graph(dice, model)
    if len(graph.node) > 1:
        i, j = sorted(dice.sample(range(len(graph.node)), 2))
        if graph.node[i].input and graph.node[j].output:
            graph.node[i].input[dice.randrange(len(graph.node[i].input))] = graph.node[j].output[0]


def operator(dice, model):
    node = any_node(dice, model)
    if node:
        others = sorted({n.op_type for n in nodes(model)})
        node.op_type = dice.choice((dice.choice(OPERATORS), dice.choice(others), *NAMES[:3]))


def domain(dice, model):
    node = any_node(dice, model)
    if node:
        node.domain = dice.choice(DOMAINS)


def opset(dice, model):
    for one in model.opset_import:
        if dice.random() < 0.7:
            one.version = dice.choice((*range(1, 25), 0, -1, 100, 2**31, 2**63 - 1))
    if dice.random() < 0.3:
        model.opset_import.append(helper.make_opsetid(dice.choice(DOMAINS), dice.choice((1, 13, -1))))


def arity(dice, model):
    """More or fewer operands than the operator has."""
    node = any_node(dice, model)
    if node:
        one = dice.choice([node.input, node.output])
        names = value_names(model) or [""]
        if dice.random() < 0.5 and len(one):
            del one[dice.randrange(len(one)):]
        else:
            one.extend([dice.choice(names) if one is node.input else f"more{i}" for i in range(dice.choice((1, 2, 30)))])


def _refill(dice, attribute):
    kind = attribute.type
    if kind == AttributeProto.INT:
        attribute.i = dice.choice(INTEGERS)
    elif kind == AttributeProto.FLOAT:
        attribute.f = dice.choice(FLOATS)
    elif kind == AttributeProto.STRING:
        attribute.s = dice.choice((b"", b"linear", b"SAME_UPPER", b"bidirectional", b"\xff\xfe", b"ij,jk->ik", b"x" * 5000))
    elif kind == AttributeProto.INTS:
        what = dice.randrange(3)
        if what == 0 and len(attribute.ints):
            attribute.ints[dice.randrange(len(attribute.ints))] = dice.choice(INTEGERS)
        elif what == 1:
            attribute.ints.extend([dice.choice(INTEGERS)] * dice.choice((1, 2, 20)))
        elif len(attribute.ints):
            del attribute.ints[dice.randrange(len(attribute.ints)):]
    elif kind == AttributeProto.FLOATS and len(attribute.floats):
        attribute.floats[dice.randrange(len(attribute.floats))] = dice.choice(FLOATS)


def attribute(dice, model):
    having = [n for n in nodes(model) if n.attribute]
    if having:
        _refill(dice, dice.choice(dice.choice(having).attribute))


def attribute_type(dice, model):
    having = [n for n in nodes(model) if n.attribute]
    if having:
        one = dice.choice(dice.choice(having).attribute)
        if dice.random() < 0.5:
            one.type = dice.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13))
        else:
            value = dice.choice((1, 2.5, "text", [1, 2], [0.5], ["a", "b"], dice.choice(INTEGERS)))
            one.CopyFrom(helper.make_attribute(one.name or "n", value))


def attribute_new(dice, model):
    node = any_node(dice, model)
    if node:
        value = dice.choice((dice.choice(INTEGERS), 1.5, "NOTSET", [dice.choice(INTEGERS)], [1, 1], [0, 0, 0, 0], [2, 0, 1]))
        node.attribute.append(helper.make_attribute(dice.choice(ATTRIBUTES), value))


def tensor_dims(dice, model):
    tensor = any_tensor(dice, model)
    if tensor is not None:
        what = dice.randrange(4)
        if what == 0:
            tensor.dims.append(dice.choice(INTEGERS))
        elif len(tensor.dims):
            at = dice.randrange(len(tensor.dims))
            if what == 1:
                del tensor.dims[at]
            elif what == 2:
                tensor.dims[at] = dice.choice(INTEGERS)
            else:  # the same number of elements, another shape
                total = 1
                for dim in tensor.dims:
                    total *= dim
                del tensor.dims[:]
                tensor.dims.extend(dice.choice(([total], [1, total], [total, 1, 1], [1] * 9 + [total])))


def tensor_data(dice, model):
    tensor = any_tensor(dice, model)
    if tensor is not None:
        raw = tensor.raw_data
        how = dice.randrange(6)
        if how == 0:
            tensor.raw_data = raw[:dice.randrange(len(raw) + 1)]
        elif how == 1:
            tensor.raw_data = raw + bytes(dice.choice((1, 4, 1000)))
        elif how == 2:
            tensor.ClearField("raw_data")
        elif how == 3:
            tensor.float_data.extend([1.0] * dice.choice((1, 4, 10)))
        elif how == 4:
            tensor.int64_data.extend([dice.choice(INTEGERS)] * dice.choice((1, 2)))
        else:
            tensor.int32_data.extend([dice.choice((0, -1, 2**31 - 1))] * dice.choice((1, 2)))


def tensor_type(dice, model):
    tensor = any_tensor(dice, model)
    if tensor is not None:
        tensor.data_type = dice.choice(TYPES)


def tensor_values(dice, model):
    """Numbers at the ends of their types: shapes, axes and scales that no one can mean."""
    tensor = any_tensor(dice, model)
    if tensor is None or not tensor.raw_data:
        return
    raw = bytearray(tensor.raw_data)
    if tensor.data_type == TensorProto.INT64 and len(raw) >= 8:
        at = 8 * dice.randrange(len(raw) // 8)
        raw[at:at + 8] = dice.choice(INTEGERS).to_bytes(8, "little", signed=True)
    else:
        width = dice.choice((1, 4))
        if len(raw) < width:
            return
        pattern = dice.choice((b"\xff" * 4, b"\x00" * 4, b"\x00\x00\x80\x7f", b"\x00\x00\xc0\x7f", b"\xff\xff\x7f\x7f", b"\x01\0\0\0"))
        for _ in range(dice.choice((1, 1, len(raw) // width))):
            at = width * dice.randrange(len(raw) // width)
            raw[at:at + width] = pattern[:width]
    tensor.raw_data = bytes(raw)


def value_shape(dice, model):
    """Inputs of other shapes, and wrong annotations."""
    every = infos(model)
    if not every:
        return
    info = dice.choice(every)
    if not info.type.HasField("tensor_type"):
        return
    shape = info.type.tensor_type.shape
    what = dice.randrange(6)
    if what == 0:
        info.type.tensor_type.ClearField("shape")
    elif what == 1:
        shape.dim.add().dim_value = dice.choice(INTEGERS)
    elif len(shape.dim):
        at = dice.randrange(len(shape.dim))
        if what == 2:
            del shape.dim[at]
        elif what == 3:
            shape.dim[at].dim_param = dice.choice(("N", "", "batch", "x" * 200))
        else:
            shape.dim[at].dim_value = dice.choice(INTEGERS)


def value_type(dice, model):
    every = infos(model)
    if not every:
        return
    info = dice.choice(every)
    what = dice.randrange(5)
    if what < 3 and info.type.HasField("tensor_type"):
        info.type.tensor_type.elem_type = dice.choice(TYPES)
    elif what == 3:
        info.type.sequence_type.elem_type.tensor_type.elem_type = dice.choice(TYPES)
    else:
        info.ClearField("type")


def annotate(dice, model):
    names = value_names(model)
    if names:
        shape = [dice.choice((1, 2, 3, 0, -1, 2**40, "N")) for _ in range(dice.randrange(6))]
        any_graph(dice, model).value_info.append(
            helper.make_tensor_value_info(dice.choice(names), dice.choice((1, 6, 7, 9, 10)), shape))


def quantization(dice, model):
    one = model.graph.quantization_annotation.add()
    names = value_names(model)
    one.tensor_name = dice.choice(names or NAMES)
    for key in ("SCALE_TENSOR", "ZERO_POINT_TENSOR"):
        entry = one.quant_parameter_tensor_names.add()
        entry.key, entry.value = key, dice.choice((*NAMES, *names[:5]))


def metadata(dice, model):
    for _ in range(dice.choice((1, 2, 300))):
        entry = model.metadata_props.add()
        entry.key, entry.value = dice.choice(NAMES), dice.choice((*NAMES, "y" * 20000))
    model.producer_name, model.ir_version = dice.choice(NAMES), dice.choice((0, 1, 3, 8, 10, 99, 2**62))


def subgraph(dice, model):
    """A body that is another graph, or that has lost what it gives."""
    holders = [a for n in nodes(model) for a in n.attribute if a.HasField("g")]
    if not holders:
        return operator(dice, model)
    one, other = dice.choice(holders), dice.choice(holders)
    what = dice.randrange(5)
    if what == 0:
        copy = onnx.GraphProto()
        copy.CopyFrom(other.g)
        one.g.CopyFrom(copy)
    elif what == 1 and len(one.g.output):
        del one.g.output[-1]
    elif what == 2 and len(one.g.input):
        del one.g.input[-1]
    elif what == 3:
        one.g.ClearField("node")
    elif len(one.g.output):
        one.g.output[0].name = dice.choice(value_names(model))
    return None


def nest(dice, model):
    """The last node in an If in an If …"""
    if not model.graph.node or not model.graph.output:
        return
    last = model.graph.node[-1]
    for i in range(dice.choice((1, 3, 10, 25))):  # Python's readers go no deeper
        inner = helper.make_graph([last], f"depth{i}", [], [onnx.ValueInfoProto(name=name) for name in last.output])
        last = helper.make_node("If", [dice.choice(value_names(model) or [""])] if i == 0 else [last.input[0]], list(last.output),
                                then_branch=inner, else_branch=inner if i < 3 else helper.make_graph(
                                    [], "e", [], list(inner.output)))
    del model.graph.node[-1]
    model.graph.node.append(last)


def function(dice, model):
    """Some node becomes a call of a function of the model, which may call itself."""
    node = any_node(dice, model)
    if not node:
        return
    body = helper.make_node(node.op_type, list(node.input), list(node.output), domain=node.domain)
    body.attribute.extend(node.attribute)
    if dice.random() < 0.4:
        body.op_type, body.domain = "Made", "own"
    made = helper.make_function("own", "Made", [i for i in node.input if i], list(node.output), [body],
                                list(model.opset_import) + [helper.make_opsetid("own", 1)])
    model.functions.append(made)
    node.op_type, node.domain = "Made", "own"
    model.opset_import.append(helper.make_opsetid("own", 1))


def any_field(dice, model):
    """A field anywhere in the tree of messages is cleared, or gets an extreme number."""
    message = model
    for _ in range(dice.randrange(1, 9)):
        below = [v for f, v in message.ListFields() if f.message_type]
        below = [m for v in below for m in ([v] if hasattr(v, "ListFields") else list(v))]
        if not below:
            break
        message = dice.choice(below)
    fields = [f for f, _ in message.ListFields()]
    if dice.random() < 0.5 or not fields:
        fields = list(message.DESCRIPTOR.fields)
    field = dice.choice(fields)
    if dice.random() < 0.3:
        message.ClearField(field.name)
        return
    value = {field.CPPTYPE_STRING: dice.choice(NAMES), field.CPPTYPE_FLOAT: dice.choice(FLOATS),
             field.CPPTYPE_DOUBLE: dice.choice(FLOATS)}.get(field.cpp_type, dice.choice(INTEGERS))
    if field.type == field.TYPE_BYTES:
        value = bytes(dice.choice((0, 1, 9)))
    try:
        one = getattr(message, field.name)
        if hasattr(one, "append"):
            one.append(value)
        elif not field.message_type:
            setattr(message, field.name, value)
    except (TypeError, ValueError):
        message.ClearField(field.name)


WAYS = {one.__name__: one for one in (
    drop, duplicate, swap, rename, rename_everywhere, cycle, operator, domain, opset, arity, attribute, attribute_type,
    attribute_new, tensor_dims, tensor_data, tensor_type, tensor_values, value_shape, value_type, annotate, quantization,
    metadata, subgraph, nest, function, any_field)}


def damage(dice, model):
    """(name of the first way, the damaged model's bytes)."""
    first = dice.choice(list(WAYS))
    for name in [first, *dice.choices(list(WAYS), k=dice.choice((0, 0, 1, 2)))]:
        try:
            WAYS[name](dice, model)
        except (DecodeError, TypeError, ValueError):  # what Python's protobuf refuses
            pass
    return first, model.SerializeToString()
