# SPDX-License-Identifier: Apache-2.0
"""The rules of docs/profile-format.md ("Validation") by their numbers, for what examples/read_profile.py reads; without Tidemark."""
import numpy as np


def exact_sum(histogram, level="histogram"):
    """The sum of the elements in the bins, rounded once."""
    mantissa = 127 if level == "histogram" else 0
    total = 0
    for bin_, count, low in zip(histogram["bins"], histogram["counts"], histogram["low"]):
        exponent = bin_ >> 7 & 255
        part = count * ((2**23 if exponent else 0) + ((bin_ & mantissa) << 16)) + low << max(exponent, 1)
        total += -part if bin_ >> 15 else part
    return total / 2**150


def check(profile):
    """[(rule, text)] of what is invalid."""
    wrong, ledger, values = [], profile["ledger"], profile["tensors"]
    numbers = [int(value["id"][1:]) for value in values]
    if ledger["offered"] != ledger["run"] + ledger["skipped"] + ledger["failed"]:
        wrong.append((1, "offered is not run + skipped + failed"))
    ranges = profile.get("coverage", {}).get("ranges", [[ledger["first_sample"], ledger["end_sample"]]])
    if sum(end - begin for begin, end in ranges) != ledger["offered"]:
        wrong.append((1, "the ranges do not hold the samples offered"))
    ids = {f"p{n}" for n in numbers}
    if numbers != sorted(set(numbers)):
        wrong.append((2, "IDs do not ascend"))
    for value in values:
        wrong += [(rule, f"{value['id']}: {text}") for rule, text in _check_value(value, ids, ledger)]
    return wrong


def _check_value(value, ids, ledger):
    sources = value.get("operands", []) + value.get("derivation", {}).get("from", [])
    yield from ((9, f"{source} is not in the profile") for source in sources if source not in ids)
    ran = sum(int(np.prod(shape["shape"], dtype=object)) * shape["runs"] for shape in value["observed_shapes"])
    if value["expected_count"] < ran or value["expected_count"] > ran and not value.get("more_shapes"):
        yield 3, f"shapes of {ran} elements ran, expected_count says {value['expected_count']}"
    if value["level"] != "none" and value["count"] != value["expected_count"]:
        yield 3, f"count is {value['count']}, expected_count {value['expected_count']}"
    if (value["status"] in ("derived",)) > ("derivation" in value) or (value["status"] == "integer") < (value["level"] == "integer"):
        yield 8, f"the status is {value['status']}"
    if value["level"] in ("range", "histogram"):
        yield from _check_floats(value)
        yield from _check_tops(value, range(ledger["first_sample"], ledger["end_sample"]))


def _ends(bin_):
    """The least and the greatest float32 of a bin."""
    ends = [float(np.uint32((bin_ << 16) + last).view(np.float32)) for last in (0, 2**16 - 1)]
    return sorted(ends)


def _check_floats(value):
    bins, counts, lows = (np.array(value["histogram"][key], dtype=object) for key in ("bins", "counts", "low"))
    parts = sum(value[key] for key in ("zeros", "nan", "posinf", "neginf")) + value.get("excluded", 0) + counts.sum()
    thinned = value.get("thinned")
    if parts > value["count"] if thinned else parts != value["count"]:
        yield 4, f"its parts add up to {parts}, not to {value['count']}"
    coarse = value["level"] == "range"
    if (bins[1:] <= bins[:-1]).any() or coarse and (bins % 128 != 0).any() or (counts <= 0).any():
        yield 5, "bins do not ascend, are empty, or are none of their level"
    if (lows < 0).any() or (lows > counts * (2**23 - 1 if coarse else 2**16 - 1)).any():
        yield 5, "a low sum is impossible for its count"
    shift = 23 if coarse else 16
    squares = np.array(value["histogram"].get("squares", []), dtype=object)
    if squares.size and ((squares * counts < lows * lows).any() or (squares > counts * (2**16 - 1) ** 2).any()):
        yield 5, "a sum of squares is impossible for its count and low sum"
    for end in ("min", "max"):
        if not thinned and value[end] and int(np.float32(value[end]).view(np.uint32)) >> shift << shift - 16 not in bins:
            yield 5, f"{end} is in no bin"
    if value["min"] is not None and value["min"] > value["max"]:
        yield 5, "min is above max"
    if thinned and any(low > value["max"] or high < value["min"] for low, high in map(_ends, bins)):
        yield 5, "a bin lies outside of min and max"
    for end, pick in (("min", min), ("max", max)) if "channels" in value else ():
        if pick((x for x in value["channels"][end] if x is not None), default=None) != value[end]:
            yield 6, f"the channels' {end} is not {value[end]}"
    if value["negatives"] != counts[bins >= 2**15].sum():
        yield 7, "negatives are not those of the histogram"
    if thinned and value["sum"] != int(thinned["sum"], 16) / 2**149:
        yield 7, f"the sum is {value['sum']}, not that of 'thinned'"
    if not thinned and value["sum"] != exact_sum(value["histogram"], value["level"]):
        yield 7, f"the sum is {value['sum']}, not that of the histogram"


def _check_tops(value, samples):
    for end, tops in value.get("top_samples", {}).items():
        order = [(top["value"] if end == "min" else -top["value"], top["sample"]) for top in tops]
        if order != sorted(order) or len(set(sample for _, sample in order)) < len(order):
            yield 10, f"the top samples of {end} are out of order"
        if tops and tops[0]["value"] != value[end] or any(top["sample"] not in samples for top in tops):
            yield 10, f"the top samples of {end} do not have the value's, or are outside the ledger's range"
