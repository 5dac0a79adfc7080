"""The Python around kernels: where calls get their arguments from."""
from __future__ import annotations

from typing import Any

import pytest
from evaluate_support import FACTORY, HEADER, analysis_of, calls, shapes


@pytest.mark.parametrize(("code", "expected"), [
    ("scale(128, 256)", ["scale(128, 256)"]),
    ("for m in [64, 128]:\n    scale(m, 32)", ["scale(64, 32)", "scale(128, 32)"]),
    ("[scale(m, n) for m, n in ((1, 2), (3, 4))]", ["scale(1, 2)", "scale(3, 4)"]),
    ("import itertools\nfor m, n in itertools.product([1, 2], [3]):\n    scale(m, n)", ["scale(1, 3)", "scale(2, 3)"]),
    ("import functools\nmake = functools.partial(scale, block=32)\nmake(1, 2)", ["scale(1, 2, block=32)"]),
    ("def make(*args, **kwargs):\n    return scale(*args, **kwargs)\nmake(1, N=2)", ["scale(1, N=2)"]),
    ("make = lambda m: scale(m, m)\nmake(5)", ["scale(5, 5)"]),
    ("scale(*divmod(70, 32), block=1 << 5)", ["scale(2, 6, block=32)"]),
    ("dtype = f'float{8 * 2}'\nscale(1, 2, dtype=dtype)", ["scale(1, 2, dtype='float16')"]),
    ("scale(1, 2, dtype=torch.bfloat16)", ["scale(1, 2, dtype='bfloat16')"]),
    ("scale(1, T.float32.bits)", ["scale(1, 32)"]),
    ("name = ''.join(c for c in T.int8 if c.isdigit())\nscale(1, int(name))", ["scale(1, 8)"]),
    ("import math\nscale(math.ceil(7 / 2), tilelang.next_power_of_2(33))", ["scale(4, 64)"]),
    ("scale(tilelang.cdiv(100, 32), max(3, 4))", ["scale(4, 4)"]),
])
def test_arguments_of_calls(code: str, expected: list[str]) -> None:
    assert calls(FACTORY + code) == expected


CLASSES = '''
import dataclasses, enum
from typing import NamedTuple
from collections import namedtuple

@dataclasses.dataclass
class Size:
    m: int
    n: int = 32
    more: list = dataclasses.field(default_factory=lambda: [7])

class Pair(NamedTuple):
    m: int
    n: int = 9

Old = namedtuple("Old", "m n")

class Kind(enum.Enum):
    SMALL = 16
    LARGE = 4096

class Op:
    block = 32

    def __init__(self, m):
        self.m = m
        self.kernel = self.build()

    @staticmethod
    def half(m):
        return m // 2

    @property
    def n(self):
        return self.m * 2

    def build(self):
        return scale(self.half(self.m), self.n, block=self.block)
'''


@pytest.mark.parametrize(("code", "expected"), [
    ("s = Size(4)\nscale(s.m, s.n + s.more[0])", ["scale(4, 39)"]),
    ("scale(*Pair(3))", ["scale(3, 9)"]),
    ("m, n = Pair(3, 4)\nscale(n, m)", ["scale(4, 3)"]),
    ("o = Old(1, n=2)\nscale(o[1], o.m)", ["scale(2, 1)"]),
    ("scale(Kind.LARGE.value, 1)", ["scale(4096, 1)"]),
    ("for k in Kind:\n    scale(k.value, 1)", ["scale(16, 1)", "scale(4096, 1)"]),
    ("kind = Kind.SMALL\nscale(1 if kind == Kind.SMALL else 2, 3)", ["scale(1, 3)"]),
    ("Op(128)", ["scale(64, 256, block=32)"]),
])
def test_classes(code: str, expected: list[str]) -> None:
    assert calls(FACTORY + CLASSES + code) == expected


def test_command_line_defaults() -> None:
    code = '''
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--m", type=int, default=96)
parser.add_argument("--wide", action="store_true")
args, rest = parser.parse_known_args()
scale(args.m, 64 if args.wide else 32)
'''
    assert calls(FACTORY + code) == ["scale(96, 32)"]


def test_environment_gives_its_defaults() -> None:
    assert calls(FACTORY + "import os\nscale(int(os.environ.get('M', '48')), int(os.getenv('N', 5)))") == ["scale(48, 5)"]


def test_parametrized_tests_are_instances() -> None:
    code = '''
import pytest

@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("n, block", [(3, 32), pytest.param(4, 64)])
def test_scale(m, n, block):
    scale(m, n, block)

@pytest.mark.parametrize("m", [100])
def test_skipped(m):
    pytest.skip("not today")
    scale(m, m)
'''
    assert sorted(calls(FACTORY + code)) == ["scale(1, 3, 32)", "scale(1, 4, 64)", "scale(2, 3, 32)", "scale(2, 4, 64)"]


def test_test_classes_run() -> None:
    assert calls(FACTORY + "class TestScale:\n    def test_it(self):\n        scale(8, 9)\n") == ["scale(8, 9)"]


def test_user_decorators_keep_the_kernel() -> None:
    text = HEADER + '''
import functools

def logged(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)
    return wrapper

def my_jit(f):
    return tilelang.jit(out_idx=[1])(f)

@my_jit
def copy(M):
    @T.prim_func
    def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)
    return main

@logged
def run(m):
    copy(m)

run(16)
'''
    assert shapes(text) == ["A: float32[16], B: float32[16]"]


def test_machine_facts_choose_an_alternative() -> None:
    code = '''
def config():
    major, minor = torch.cuda.get_device_capability()
    if major >= 9:
        return 128, 64
    elif major >= 8:
        return 64, 32
    else:
        raise ValueError("old")

scale(*config())
scale(3, 4) if torch.version.hip is None else scale(5, 6)
if "Radeon" in torch.cuda.get_device_name():
    scale(7, 8)
'''
    found = calls(FACTORY + code)
    assert found[0] in ("scale(128, 64)", "scale(64, 32)")
    assert found[1:] == ["scale(3, 4)"]


def test_imports_through_search_paths(tmp_path: Any) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "sizes.py").write_text("M = 40\ndef double(x):\n    return 2 * x\n")
    (tmp_path / "app").mkdir()
    for line in ('sys.path.append(os.path.join(os.path.dirname(__file__), "../shared"))',
                 "sys.path.insert(0, str(Path(__file__).parent.parent / 'shared'))"):
        text = FACTORY + f"import os, sys\nfrom pathlib import Path\n{line}\nfrom sizes import M, double\nscale(M, double(M))\n"
        assert calls(text, tmp_path / "app" / "kernel.py") == ["scale(40, 80)"]


def test_what_a_long_loop_changes_is_not_known() -> None:
    code = "total = 0\nfor i in range(1000):\n    total += 1\nscale(total, 32)\n"
    [instance] = analysis_of(FACTORY + code).kernels[0].instances
    assert instance.text == "scale(?, 32)" and not instance.is_known()


@pytest.mark.parametrize(("body", "whole"), [("table.append(i * i + len(table))", False), ("tile[0, 0] = i", True)])
def test_a_loop_in_a_kernel_that_gives_it_nothing_is_cut_short(monkeypatch: pytest.MonkeyPatch, body: str, whole: bool) -> None:
    from evaluate_support import instantiate
    from tilec.evaluate import statements

    done, one = [], statements._one_iteration
    monkeypatch.setattr(statements, "MAX_LOOP_STEPS", 100)
    monkeypatch.setattr(statements, "_one_iteration", lambda ev, code, scope: done.append(1) or one(ev, code, scope))
    code = FACTORY.replace("            T.copy(tile, B", f"            table = []\n            for i in [*range(200)]:\n                {body}\n            T.copy(tile, B")
    analysis = analysis_of(code + "scale(64, 32)\n")
    assert instantiate(analysis, analysis.kernels[0], analysis.kernels[0].instances[0]) is not None
    assert len(done) == 200 if whole else 0 < len(done) < 100


def test_a_filter_that_leaves_out_nearly_all_stops_nothing_after_it() -> None:
    code = FACTORY + "few = [i for i in range(10**7) if i == 5]\nscale(64, 32)\n"
    assert calls(code) == ["scale(64, 32)"] == calls(code.replace("10**7", "10"))


def test_a_name_that_a_loop_misses_again_and_again_is_not_looked_for_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilec.evaluate import names

    asked: list[str] = []
    near = names.difflib.get_close_matches
    monkeypatch.setattr(names.difflib, "get_close_matches", lambda name, *args, **options: asked.append(name) or near(name, *args, **options))
    code = "def run(count):\n    sizes = [0] * 4\n    for i in range(count):\n        sizes[i % 4] = ratoi\n    scale(sizes[0], 2)\nratio = 3\nrun(1000)\n"
    analysis_of(FACTORY + code)
    assert len(asked) <= 1


def test_allocations_further_down_are_looked_for_once_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluate_support import instantiate
    from tilec.evaluate import names

    walks: list[str] = []
    walk = names.walk
    monkeypatch.setattr(names, "walk", lambda node: walks.append(node.name) or walk(node))
    code = FACTORY.replace("            T.copy(tile, B", "            for i in range(50):\n                T.copy(late, lost)\n            late = T.alloc_shared((4,), dtype)\n            T.copy(tile, B")
    analysis = analysis_of(code + "scale(1, 2)\nscale(3, 4)\n")
    [kernel] = analysis.kernels
    for instance in kernel.instances:
        program = instantiate(analysis, kernel, instance)
        assert program is not None
        told = {p.rule: p.message for p in program.attrs["problems"]}
        assert "late" in told["use-before-alloc"] and "'lost'" in told["undefined-name"]
    assert walks == ["scale"]


@pytest.mark.parametrize("loop", ["T.serial({})", "T.serial(0, {})", "T.unroll({})", "T.Parallel({})", "T.grid({}, 2)", "T.Pipelined({}, num_stages=2)", "T.vectorized({})",
                                  "T.Persistent([{}, 4], 4, bx)", "T.thread_binding({}, thread='threadIdx.x')"])
@pytest.mark.parametrize("odd", ["T", "T.gemm", "T.float16", "[]", "{}", "None", "print", "lambda x: x", "b''", "1j", "..."])
def test_bounds_of_odd_kinds_are_not_known(loop: str, odd: str) -> None:
    from evaluate_support import instantiate

    code = FACTORY.replace("            T.copy(tile, B", f"            for i in {loop.replace('{}', odd, 1)}:\n                tile[0, 0] = 1\n            T.copy(tile, B")
    analysis = analysis_of(code + "scale(64, 32)\n")
    assert instantiate(analysis, analysis.kernels[0], analysis.kernels[0].instances[0]) is not None


def test_a_block_without_thread_extents_has_one_thread() -> None:
    from evaluate_support import instantiate

    analysis = analysis_of(FACTORY.replace("threads=128", "threads=[]") + "scale(64, 32)\n")
    program = instantiate(analysis, analysis.kernels[0], analysis.kernels[0].instances[0])
    assert program is not None and [launch.threads for launch in program.launches()] and len(program.launches()[0].threads) == 3


def test_a_problem_is_told_once_a_place_and_again_after_it_was_taken_back() -> None:
    from tilec.evaluate.evaluator import Evaluator
    from tilec.evaluate.workspace import Workspace
    from tilec.source import SourceFile

    source = SourceFile("kernel.py", "a\nb\n")
    ev = Evaluator(source, Workspace())
    ev.reporting = True
    first, second = source.tree.body
    for place in (first, second, first):
        ev.problem("undefined-name", "no such name", place)
    ev.problem("variable-scope", "gone", first)
    assert [(p.rule, p.span.line) for p in ev.problems] == [("undefined-name", 1), ("undefined-name", 2), ("variable-scope", 1)]
    ev.problems[:] = ev.problems[1:]
    assert ev.news("undefined-name", first) and not ev.news("undefined-name", second)
