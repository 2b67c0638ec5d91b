# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX files byte by byte, so that a test can write wrong ones. Field numbers are those of the ONNX format."""
import struct

FLOAT, UINT8, INT8, INT64, BOOL, FLOAT16 = 1, 2, 3, 7, 9, 10
FORMATS = {FLOAT: "f", UINT8: "B", INT8: "b", INT64: "q", BOOL: "?", FLOAT16: "e"}


def _varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7f:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(field, value):
    return _varint(field << 3) + _varint(value)


def block(field, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def tensor(name, dims, values, dtype=FLOAT, external=None):
    """An initializer; with `external`, a dictionary such as {"location": "weights.bin"}, its bytes are elsewhere."""
    out = b"".join(number(1, d) for d in dims) + number(2, dtype) + block(8, name)
    if external is None:
        return out + block(9, struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values))
    for key, value in external.items():
        out += block(13, block(1, key) + block(2, str(value)))
    return out + number(14, 1)


def value(name, dims, dtype=FLOAT):
    """An input or output; dims are numbers or names."""
    shape = b"".join(block(1, number(1, d) if isinstance(d, int) else block(2, d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, dtype) + block(2, shape)))


def attribute(name, content):
    """A whole number, a list of them, text, or the bytes of a graph."""
    if isinstance(content, int):
        return block(1, name) + number(3, content) + number(20, 2)
    if isinstance(content, list):
        return block(1, name) + b"".join(number(8, i) for i in content) + number(20, 7)
    if isinstance(content, str):
        return block(1, name) + block(4, content) + number(20, 3)
    return block(1, name) + block(6, content) + number(20, 5)


def node(op, inputs, outputs, name="", domain="", **attributes):
    out = b"".join(block(1, i) for i in inputs) + b"".join(block(2, o) for o in outputs)
    out += block(3, name) + block(4, op) + b"".join(block(5, attribute(*item)) for item in attributes.items())
    return out + (block(7, domain) if domain else b"")


def graph(nodes, inputs, outputs, initializers=(), declared=()):
    return b"".join([*(block(1, n) for n in nodes), block(2, "g"), *(block(5, i) for i in initializers),
                     *(block(11, i) for i in inputs), *(block(12, o) for o in outputs), *(block(13, d) for d in declared)])


def model(nodes, inputs, outputs, initializers=(), opsets=(("", 17),), declared=()):
    out = number(1, 8) + block(7, graph(nodes, inputs, outputs, initializers, declared))
    return out + b"".join(block(8, block(1, domain) + number(2, version)) for domain, version in opsets)
