# SPDX-License-Identifier: Apache-2.0
"""Damage to files of a known form that keeps the form: JSON that parses, HDF5 that opens, .npy with another header."""
import io
import json
import os

import numpy as np

try:
    import h5py
except ImportError:
    h5py = None

NUMBERS = (0, 1, -1, 2, 7, 255, 65535, 2**31, 2**32, 2**53, 2**53 + 1, 2**63, 2**64, 10**30, -2**63, 0.5, -0.5, 1e-320, 1e308, -1e308, 3.5e38,
           float("inf"), float("-inf"), float("nan"))
TEXTS = ("", " ", "NaN", "nan", "Infinity", "-Infinity", "0x10", "1e999", "p0", "p99999", "p-1", "\n", "\x1b[31m", "<script>",
         "../../x", "%s%n", "é", "float32", "observed", "constant", "never", "a" * 5000, "null", "true", "\u0000", "18446744073709551616")


# ---- JSON ----

def _places(thing):
    """Every (container, key) of the tree, the outer ones first."""
    found = [(thing, key) for key in (thing if isinstance(thing, dict) else range(len(thing)) if isinstance(thing, list) else ())]
    for container, key in found:
        below = container[key]
        if isinstance(below, dict):
            found += [(below, one) for one in below]
        elif isinstance(below, list):
            found += [(below, i) for i in range(len(below))]
    return found


def _other(dice, value):
    """Something else of the same type, most often."""
    if dice.random() < 0.25:
        return dice.choice((None, True, False, [], {}, "text", 1, 1.5, [[]], {"a": 1}, [value], {"a": value}))
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return dice.choice((*NUMBERS, value + 1, value - 1, -value, value * 2, str(value)))
    if isinstance(value, str):
        return dice.choice((*TEXTS, value + "x", value[:-1], value[::-1], value.upper()))
    if isinstance(value, list):
        return dice.choice((value[:-1], value + value, value[::-1], value[:1], value + [0], []))
    return dice.choice(({}, None, list(value.values()) if isinstance(value, dict) else {}))


def _json_step(dice, tree):
    places = _places(tree)
    if not places:
        return "value"
    container, key = dice.choice(places[:60] if dice.random() < 0.4 else places)
    how = dice.choice(("value", "value", "value", "remove", "rename", "copy", "swap", "deep"))
    if how == "value":
        container[key] = _other(dice, container[key])
    elif how == "remove":
        del container[key]
    elif how == "rename" and isinstance(container, dict):
        value = container.pop(key)
        container[dice.choice((key + "x", key[:-1], key.upper(), "id", "name", ""))] = value
    elif how == "copy" and isinstance(container, list):
        container.insert(dice.randrange(len(container) + 1), container[key])
    elif how == "deep":
        value = container[key]
        for _ in range(dice.choice((3, 50, 990))):
            value = [value]
        container[key] = value
    else:
        other, there = dice.choice(places)
        try:
            container[key], other[there] = other[there], container[key]
            json.dumps(tree)
        except (KeyError, IndexError, TypeError, ValueError, RecursionError):  # it holds itself now
            container[key] = None
    return how


def damage_json(dice, content):
    tree = json.loads(content)
    how = [_json_step(dice, tree) for _ in range(dice.choice((1, 1, 1, 2, 5)))]
    try:
        text = json.dumps(tree, indent=dice.choice((None, 1)), ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return how[0], b"[" * 5000 + content
    if dice.random() < 0.1:
        at = dice.randrange(len(text))
        text = dice.choice((b"\xef\xbb\xbf" + text, text[:at] + b"\xff\xc0" + text[at:], text + b"{}", text + b"\0", b"[" * 3000 + text))
        how[0] = "around"
    return how[0], text


# ---- HDF5 ----

def _datasets(file):
    found = []
    file.visititems(lambda name, thing: found.append(name) if isinstance(thing, h5py.Dataset) else None)
    return found


def _rewrite(file, name, data, **settings):
    attributes = dict(file[name].attrs)
    del file[name]
    made = file.create_dataset(name, data=data, **settings)
    for key, value in attributes.items():
        if key not in ("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"):
            made.attrs[key] = value


def _other_array(dice, array):
    how = dice.randrange(6)
    if how == 0:
        return array[:dice.randrange(len(array) + 1)] if array.ndim else np.zeros(3)
    if how == 1:
        return np.concatenate([array, array]) if array.ndim else array[None]
    if how == 2:
        return array[None] if array.dtype.names else array.reshape(-1, 1)
    if how == 3 and not array.dtype.names and array.dtype.kind in "iuf":
        return array.astype(dice.choice(("f4", "f8", "i1", "u2", "i8", "u8", ">f4")))
    if how == 4 and array.dtype.names and len(array.dtype.names) > 1:
        keep = [name for name in array.dtype.names if name != dice.choice(array.dtype.names)]
        out = np.zeros(array.shape, [(name, array.dtype[name]) for name in keep])
        for name in keep:
            out[name] = array[name]
        return out
    return np.zeros(dice.choice(((), (0,), (3,), (2, 2))), dice.choice(("f8", "i4", "S5")))


def _cell(dice, array):
    """One number of the array becomes extreme."""
    array = array.copy()
    if not array.size:
        return array
    part = array.reshape(-1)
    if array.dtype.names:
        part = part[dice.choice(array.dtype.names)]
    if part.dtype.kind in "iu":
        ends = np.iinfo(part.dtype)
        part.flat[dice.randrange(part.size)] = dice.choice((0, 1, ends.min, ends.max, ends.max - 1, 3))
    elif part.dtype.kind == "f":
        part.flat[dice.randrange(part.size)] = dice.choice((0, -1, np.inf, -np.inf, np.nan, np.finfo(part.dtype).max, 1e-40))
    elif part.dtype.kind == "S":
        part.flat[dice.randrange(part.size)] = dice.choice((b"", b"\xff\xfe", b"x" * 300, b"p9"))
    elif part.dtype.kind == "O":
        part.flat[dice.randrange(part.size)] = dice.choice(TEXTS).replace("\0", "0")
    return array


def _hdf5_step(dice, file):
    names = _datasets(file)
    everything = [file, *(file[name] for name in names)]
    how = dice.choice(("cell", "cell", "cell", "array", "array", "attribute", "attribute", "remove", "link", "rename"))
    name = dice.choice(names) if names else None
    if how == "attribute" or name is None:
        holders = [one for one in everything if len(one.attrs)]
        if holders:
            one = dice.choice(holders)
            key = dice.choice(sorted(one.attrs))
            del one.attrs[key]
            if dice.random() < 0.7:
                one.attrs[key] = dice.choice((*NUMBERS[:9], 0.5, np.nan, *[t.replace("\0", "0") for t in TEXTS], np.arange(5), np.array([b"a", b"b"])))
    elif how == "cell":
        file[name][...] = _cell(dice, file[name][...])
    elif how == "array":
        _rewrite(file, name, _other_array(dice, file[name][...]))
    elif how == "remove":
        del file[name]
    elif how == "rename":
        file.move(name, name + "x")
    else:
        del file[name]
        file[name] = dice.choice((h5py.SoftLink("/" + name), h5py.SoftLink("/" + dice.choice(names)), h5py.ExternalLink("no.h5", "/x")))
    return how


def damage_hdf5(dice, content):
    stream = io.BytesIO(content)
    with h5py.File(stream, "r+") as file:
        how = "none"
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            try:
                how = _hdf5_step(dice, file)
            except (TypeError, ValueError, KeyError, RuntimeError, OSError, IndexError, OverflowError):  # what h5py itself refuses
                pass
    return how, stream.getvalue()


# ---- lines and words ----

def damage_text(dice, content):
    """Words and lines, of tables and programs."""
    lines = content.split(b"\n")
    at = dice.randrange(len(lines))
    how = dice.choice(("number", "number", "word", "line removed", "line repeated", "lines swapped", "indent"))
    if how == "line removed":
        del lines[at]
    elif how == "line repeated":
        lines.insert(dice.randrange(len(lines) + 1), lines[at])
    elif how == "lines swapped":
        other = dice.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif how == "indent":
        lines[at] = dice.choice((b" ", b"\t", b"      ")) + lines[at].strip()
    else:
        words = lines[at].split(b" ")
        i = dice.randrange(len(words))
        number = str(dice.choice(NUMBERS)).encode()
        words[i] = number if how == "number" else dice.choice((*(t.encode() for t in TEXTS), words[i][:-1], words[i] + words[i], b"%0", b"@main", b"(", b")", b"]", b"{", b"/*", b'"'))
        lines[at] = b" ".join(words)
    return how, b"\n".join(lines)


# ---- .npy ----

def damage_npy(dice, content):
    """Another header: type, order, shape."""
    size = int.from_bytes(content[8:10], "little")
    header = eval(content[10:10 + size])  # of a file that this process wrote
    how = dice.choice(("descr", "order", "shape", "key"))
    shape = list(header["shape"])
    if how == "descr":
        header["descr"] = dice.choice(("<f8", ">f4", "<i8", "|b1", "<f2", "|O", "<U5", "|S3", "<c8", "|V4", "<f3", "", [("a", "<f4")]))
    elif how == "order":
        header["fortran_order"] = dice.choice((True, "True", 1, None))
    elif how == "shape":
        at = dice.randrange(len(shape) + 1)
        number = dice.choice((0, 1, -1, 2, 2**31, 2**62, 2**63, 10**30, 1.5, "N"))
        shape[at:at + dice.choice((0, 1))] = [number]
        header["shape"] = tuple(shape)
    else:
        header[dice.choice(("shape", "descr", "fortran_order", "more"))] = dice.choice((None, 1, "x", ()))
    text = repr(header).encode() + b"\n"
    return how, content[:8] + len(text).to_bytes(2, "little") + text + content[10 + size:]


def small_pictures(folder):
    """A PNG and a JPEG of a digit's size, where Pillow is there."""
    from PIL import Image
    grey = Image.fromarray((np.arange(64, dtype=np.uint8) * 4).reshape(8, 8))
    files = []
    for name, picture in (("grey.png", grey), ("colour.png", grey.convert("RGB")), ("palette.png", grey.convert("P")), ("photo.jpg", grey.convert("RGB")),
                          ("cmyk.jpg", grey.convert("CMYK")), ("deep.png", grey.convert("I").convert("I;16"))):
        picture.save(os.path.join(folder, name))
        files.append(os.path.join(folder, name))
    return files
