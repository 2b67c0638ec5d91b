# SPDX-License-Identifier: Apache-2.0
"""The tables of peers.py, made from measures that were made up; nothing is timed. Only Python's standard library."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import table

ABOUT = {"machine": "a machine", "date": "2000-01-01", "versions": {"x": "1"}, "noise": "", "commands": ["peers.py"],
         "samples": {"few": 16, "some": 64, "many": "1,024"}}
MIB = 1 << 20


def results(*records):
    return {"about": ABOUT, "records": [{"case": "net", **record} for record in records]}


def row(lines, title):
    found = [line for line in lines if line.startswith(f"| {title} |")]
    assert len(found) == 1, f"{title}: {found}"
    return [cell.strip() for cell in found[0].strip("|").split("|")][1:]


def test_the_best_round_counts():
    lines = table.render(results({"what": "bare", "rate": 10.0}, {"what": "bare", "rate": 12.5}, {"what": "bare", "rate": 11.0},
                                 {"what": "start", "wall_s": 0.5}, {"what": "start", "wall_s": 0.25}))
    assert row(lines, "Tidemark, bare") == ["12.5"]
    assert row(lines, "start to first batch, histograms, s") == ["≤ 1", "0.25"]


def test_what_was_not_measured_has_no_row():
    text = "\n".join(table.render(results({"what": "bare", "rate": 10.0})))
    assert "Calibrater" not in text and "histograms ÷" not in text and "None" not in text


def test_goals_are_held_against_figures():
    near = [{"what": "bare", "rate": 110.0}, {"what": "histograms", "rate": 100.0}]
    assert row(table.render(results(*near)), "cost of histograms over bare, %") == ["≤ 18", "10.0"]
    far = [{"what": "bare", "rate": 200.0}, {"what": "histograms", "rate": 100.0}]
    assert row(table.render(results(*far)), "cost of histograms over bare, %") == ["≤ 18", "100.0 ✗"]
    memory = [{"what": "memory-few", "peak_bytes": 90 * MIB}, {"what": "memory-many", "peak_bytes": 90.5 * MIB}]
    assert row(table.render(results(*memory)), "growth of peak memory, MiB") == ["–", "0.5"]


def test_failures_are_named():
    lines = table.render(results({"what": "bare", "rate": 10.0}, {"what": "ort-entropy-some", "error": "status 1: MemoryError"}))
    assert "- net, ort-entropy-some: status 1: MemoryError" in lines


def test_only_what_is_between_the_markers_changes():
    once = table.put_into(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n", ["new"])
    assert once.startswith("before\n") and once.endswith("\nafter\n") and "new" in once and "old" not in once
    assert table.put_into(once, ["new"]) == once
    assert table.put_into("", ["new"]).startswith(table.BEGIN)


def test_tables_are_made_again_from_what_was_kept():
    peers = Path(__file__).with_name("peers.py")
    with tempfile.TemporaryDirectory() as folder:
        kept, page = Path(folder, "kept.json"), Path(folder, "page.md")
        kept.write_text(json.dumps(results({"what": "bare", "rate": 12.5})))
        page.write_text(f"before\n{table.BEGIN}\n{table.END}\n")
        subprocess.run([sys.executable, "-B", peers, "--render", kept, "--markdown", page], check=True)
        assert "| Tidemark, bare | 12.5 |" in page.read_text()


if __name__ == "__main__":
    tests = [test for name, test in list(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
        print(f"ok: {test.__name__}")
