"""benchmarks/examples_latency.py: entry points found, each run in a process of its own, failures with their reason, the comparison with a reference."""
from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from tilec.jit import bench

pytest.importorskip("torch")
SCRIPT = Path(__file__).parents[1] / "benchmarks" / "examples_latency.py"
EXAMPLE = '''
import time
import tilelang.profiler

def run(scale=1.0):
    print("text of an example")
    return scale * tilelang.profiler.do_bench(lambda: time.sleep(0.002), warmup=2, rep=10, return_mode="median")

def broken():
    raise ValueError("this one cannot run")
'''
REGRESSION = '''
import tilelang.testing
import kind

def regression_example_fast():
    tilelang.testing.process_func(kind.run)

def regression_slow():
    tilelang.testing.process_func(kind.run, "regression_slow", scale=10.0)

def regression_broken():
    tilelang.testing.process_func(kind.broken)

if __name__ == "__main__":
    tilelang.testing.regression()
'''


def test_entries_are_timed_and_compared(tmp_path):
    folder = tmp_path / "examples" / "group"
    folder.mkdir(parents=True)
    (folder / "kind.py").write_text(EXAMPLE)
    (folder / "regression_group.py").write_text(REGRESSION)
    reference = tmp_path / "before.json"
    reference.write_text(json.dumps([{"entry": "group/fast", "ms": {"TileLang": 1.0}}, {"entry": "group/slow", "ms": {"TileLang": 40.0}}]))
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path / "examples"), "--reference", str(reference), "--json", str(tmp_path / "out.json")],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = {item["entry"]: item for item in json.loads((tmp_path / "out.json").read_text())}
    assert set(found) == {"group/fast", "group/slow", "group/broken"}
    fast, slow = found["group/fast"]["ratio"], found["group/slow"]["ratio"]
    assert 2.0 <= fast < 20 and 0.5 <= slow < 5, "2 ms against 1 and 20 ms against 40, on a busy machine"
    assert "this one cannot run" in found["group/broken"]["failure"]["ours"] and "this one cannot run" in done.stdout
    assert f"over 2 entries: {math.sqrt(fast * slow):.3f}" in done.stdout and "text of an example" not in done.stdout


def test_a_tree_without_entries(tmp_path):
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "no entry points" in done.stderr


def test_backends_and_modes_are_those_of_tilelang():
    with pytest.raises(ValueError, match="no backend 'sundial'"):
        bench.measure(lambda: None, "sundial", 1, 1, 0, 0, 1)
    assert [mode([1.0, 2.0, 6.0]) for mode in bench.MODES.values()] == [3.0, 2.0, 1.0, 6.0]
