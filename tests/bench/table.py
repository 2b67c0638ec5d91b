# SPDX-License-Identifier: Apache-2.0
"""What peers.py measured, as Markdown: rates, then each goal with its figure for every model.

Only Python's standard library.
"""
import textwrap

BEGIN, END = "<!-- figures: begin (made by tests/bench/peers.py) -->", "<!-- figures: end -->"
NONE = "–"
MIB = 1 << 20
WIDTH = 100  # characters of a line

RATES = [
    ("ONNX Runtime, optimised", "ort-optimised"), ("ONNX Runtime, not optimised", "ort-plain"),
    ("ONNX Runtime, MinMaxCalibrater", "ort-minmax"), ("ONNX Runtime, EntropyCalibrater", "ort-entropy"),
    ("ONNX Runtime, PercentileCalibrater", "ort-percentile"), ("Tidemark, bare", "bare"), ("Tidemark, minmax", "minmax"),
    ("Tidemark, ranges", "ranges"), ("Tidemark, histograms", "histograms"),
    ("Tidemark, bare, 1 thread", "bare-1"), ("Tidemark, histograms, 1 thread", "histograms-1"),
]


class Best:
    """The best of each measure of one model: the highest rate, the least time; of a peak the highest."""

    BETTER = {"rate": max, "wall_s": min, "ready_s": min, "total_s": min, "peak_bytes": max, "values": max}

    def __init__(self, records):
        self.found, self.errors = {}, {}
        for record in records:
            what = record["what"]
            if "error" in record:
                self.errors[what] = record["error"]
            for key, better in self.BETTER.items():
                if key in record:
                    old = self.found.get((what, key))
                    self.found[what, key] = record[key] if old is None else better(old, record[key])

    def __call__(self, what, key="rate"):
        return self.found.get((what, key))


def ratio(over, under):
    return over / under if over and under else None


def cost(best, what):
    ratio_to_bare = ratio(best("bare"), best(what))
    return None if ratio_to_bare is None else 100 * (ratio_to_bare - 1)


def growth(best):
    few, many = best("memory-few", "peak_bytes"), best("memory-many", "peak_bytes")
    return (many - few) / MIB if few and many else None


def peak(best, what):
    bytes_held = best(what, "peak_bytes")
    return bytes_held / MIB if bytes_held else None


# (its text, its figure of a Best, how it is printed, the goal: ">=" or "<=" and a number, or None where none is set)
GOALS = [
    ("histograms ÷ ONNX Runtime not optimised", lambda b: ratio(b("histograms"), b("ort-plain")), "{:.2f}", (">=", 1.15)),
    ("histograms ÷ ONNX Runtime optimised", lambda b: ratio(b("histograms"), b("ort-optimised")), "{:.2f}", (">=", 0.75)),
    ("minmax ÷ ONNX Runtime optimised", lambda b: ratio(b("minmax"), b("ort-optimised")), "{:.2f}", (">=", 0.85)),
    ("histograms ÷ MinMaxCalibrater", lambda b: ratio(b("histograms"), b("ort-minmax")), "{:.2f}", (">=", 2)),
    ("histograms ÷ EntropyCalibrater", lambda b: ratio(b("histograms"), b("ort-entropy")), "{:.1f}", (">=", 10)),
    ("histograms ÷ PercentileCalibrater", lambda b: ratio(b("histograms"), b("ort-percentile")), "{:.1f}", (">=", 10)),
    ("cost of minmax over bare, %", lambda b: cost(b, "minmax"), "{:.1f}", ("<=", 4)),
    ("cost of ranges over bare, %", lambda b: cost(b, "ranges"), "{:.1f}", None),
    ("cost of histograms over bare, %", lambda b: cost(b, "histograms"), "{:.1f}", ("<=", 18)),
    ("bare: 2 threads ÷ 1", lambda b: ratio(b("bare"), b("bare-1")), "{:.2f}", (">=", 1.9)),
    ("histograms: 2 threads ÷ 1", lambda b: ratio(b("histograms"), b("histograms-1")), "{:.2f}", None),
    ("values observed, weights not counted", lambda b: b("memory-few", "values"), "{:d}", None),
    ("values observed by MinMaxCalibrater", lambda b: b("ort-minmax", "values"), "{:d}", None),
    ("peak memory, {few} samples, MiB", lambda b: peak(b, "memory-few"), "{:.0f}", None),
    ("peak memory, {many} samples, MiB", lambda b: peak(b, "memory-many"), "{:.0f}", ("<=", 400)),
    ("growth of peak memory, MiB", growth, "{:.1f}", None),
    ("peak memory of EntropyCalibrater, {few} samples, MiB", lambda b: peak(b, "ort-entropy-few"), "{:.0f}", None),
    ("peak memory of EntropyCalibrater, {some} samples, MiB", lambda b: peak(b, "ort-entropy-some"), "{:.0f}", None),
    ("peak memory of MinMaxCalibrater, {few} samples, MiB", lambda b: peak(b, "ort-minmax-few"), "{:.0f}", None),
    ("start to first batch, histograms, s", lambda b: b("start", "wall_s"), "{:.2f}", ("<=", 1)),
    ("start to first batch, MinMaxCalibrater, s", lambda b: b("ort-start", "total_s"), "{:.2f}", None),
]


def rate_text(rate):
    if rate is None:
        return NONE
    return f"{rate:.0f}" if rate >= 1000 else f"{rate:.1f}"


def goal_text(goal):
    return {">=": "≥", "<=": "≤"}[goal[0]] + f" {goal[1]:g}" if goal else NONE


def figure_text(value, form, goal):
    if value is None:
        return NONE
    text = form.format(value)
    if not goal:
        return text
    reached = value >= goal[1] if goal[0] == ">=" else value <= goal[1]
    return text if reached else text + " ✗"


def wrap(text, bullet=""):
    """Lines of a paragraph, or of an entry of a list."""
    return textwrap.wrap(text, WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_long_words=False,
                         break_on_hyphens=False)


def rows_of(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def render(results):
    """Lines between the markers; `results` is what peers.py keeps: {"about": {...}, "records": [...]}."""
    about, cases = results["about"], {}
    for record in results["records"]:
        cases.setdefault(record["case"], []).append(record)
    bests = {case: Best(records) for case, records in cases.items()}
    versions = ", ".join(f"{name} {version}" for name, version in sorted(about["versions"].items()))
    lines = [*wrap(f"{about['machine']}; {about['date']}; {versions}."), "", "Commands:", "",
             *(line for command in about["commands"] for line in wrap(f"`{command}`", "- ")), "", *wrap(about["noise"]), "",
             "Samples per second, with 2 threads except where noted:", ""]
    lines += rows_of(["", *bests], [[title] + [rate_text(best(what)) for best in bests.values()]
                                    for title, what in RATES if any(best(what) for best in bests.values())])
    lines += ["", "Ratios, costs, peak memory and start; ✗: the goal is not met.", ""]
    rows = []
    for title, value, form, goal in GOALS:
        texts = [figure_text(value(best), form, goal) for best in bests.values()]
        if any(text != NONE for text in texts):
            rows.append([title.format(**about["samples"]), goal_text(goal), *texts])
    lines += rows_of(["", "goal", *bests], rows)
    failures = [line for case, best in bests.items() for what, error in best.errors.items()
                for line in wrap(f"{case}, {what}: {error}", "- ")]
    return lines + (["", "Failed measurements:", "", *failures] if failures else [])


def put_into(text, lines):
    """`text` with everything between its markers replaced; the lines alone where it has none."""
    block = "\n".join([BEGIN, "", *lines, "", END])
    if BEGIN not in text or END not in text:
        return block + "\n"
    return text[:text.index(BEGIN)] + block + text[text.index(END) + len(END):]
