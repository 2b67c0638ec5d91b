# SPDX-License-Identifier: Apache-2.0
"""Damage independent of a file's format: bits, bytes and ranges."""
INTERESTING = (0, 1, 2, 7, 8, 0x20, 0x22, 0x2d, 0x7f, 0x80, 0xff)


def _flip(dice, data):
    for _ in range(dice.choice((1, 1, 2, 8))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _overwrite(dice, data):
    at, n = dice.randrange(len(data)), dice.choice((1, 1, 2, 4, 8, 64))
    byte = dice.choice((*INTERESTING, None))
    for i in range(at, min(at + n, len(data))):
        data[i] = dice.randrange(256) if byte is None else byte


def _truncate(dice, data):
    del data[dice.choice((dice.randrange(len(data)), max(0, len(data) - dice.choice((1, 2, 8, 100))))):]


def _range(dice, data):
    begin = dice.randrange(len(data))
    return begin, min(len(data), begin + dice.choice((1, 2, 8, 64, 1000, len(data) // 4 + 1)))


def _remove(dice, data):
    begin, end = _range(dice, data)
    del data[begin:end]


def _duplicate(dice, data):
    begin, end = _range(dice, data)
    at = dice.choice((begin, end, dice.randrange(len(data))))
    data[at:at] = data[begin:end]


def _swap(dice, data):
    begin, end = _range(dice, data)
    other = dice.randrange(len(data))
    piece = data[begin:end]
    data[begin:end] = data[other:other + len(piece)]
    data[other:other + len(piece)] = piece


def _insert(dice, data):
    at = dice.randrange(len(data))
    data[at:at] = bytes(dice.randrange(256) for _ in range(dice.choice((1, 4, 16))))


WAYS = {"flip": _flip, "overwrite": _overwrite, "truncate": _truncate, "remove": _remove, "duplicate": _duplicate,
        "swap": _swap, "insert": _insert}


def damage(dice, content, structure=None):
    """(name of the way, the damaged bytes). `structure`: (begin, end) where two in three changes go, a big file's few bytes
    that are not plain numbers."""
    way = dice.choice(list(WAYS))
    data = bytearray(content)
    if structure and dice.random() < 0.67:
        begin, end = structure
        part = data[begin:end]
        if part:
            WAYS[way](dice, part)
            data[begin:end] = part
    elif data:
        WAYS[way](dice, data)
    return way, bytes(data)
