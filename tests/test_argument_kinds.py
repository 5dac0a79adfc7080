"""Kinds of arguments: every exported name of the newest TileLang has a signature of which wrong keywords, counts and kinds
of arguments are found; right calls of every family are silent."""

from __future__ import annotations

from functools import lru_cache

import pytest
from tilec.check import check_analysis
from tilec.evaluate import analyse
from tilec.language.kinds import Kind
from tilec.language.parameters import kind_of
from tilec.source.file import SourceFile
from tilec.target.chips import DECLARED, find

from tile_lsp.releases import manifest

API = manifest.load("0.1.15")
HEAD = "import tilelang\nimport tilelang.language as T\n"
# Written as an argument -> its form.
WRONG = {"{}": "dict", "[1]": "sequence", "1.5": "float", "'no such text'": "str", "A": "buffer", "T.float16": "dtype"}
NAMES = [n for n, e in sorted(API.language.items()) if not e.incidental and e.kind not in ("module", "constant")]
CALLED = [n for n in NAMES if API.parameters(n) is not None]
# Parameters that take anything, or that another rule looks at.
OPEN = {
    "threads", "cluster_dims", "num_stages", "memory_order", "rounding_mode", "order", "generator", "bit", "dist", "n", "schedule", "op_id",
    "func_name", "args", "name", "node", "value", "obj", "stmts", "frames", "grid_vars", "grid_extents", "thread_vars", "thread_extents",
    "combine", "params", "body", "ret_type", "buffer_map", "attrs", "slice_byte_offset", "data", "kernel", "rbits", "var", "v", "thread",
    "cls", "buffer_slices", "ptype", "freduce_args", "span",
}  # fmt: skip
# Where they stand in the generated kernels is a fault of its own, which is told instead.
MISPLACED = ("const", "Kernel", "ClusterKernel", "CUDASourceCodeKernel")


def parameters(name: str) -> list:
    return [p for p in API.parameters(name) or () if p.kind != "var_keyword"]


def kind(name: str, parameter) -> Kind | None:
    return kind_of(name, parameter.name, parameter.annotation, parameter.has_default and parameter.default == "None")


def lines_of(kernels: list[str]) -> str:
    """One kernel a call, so that none is in the way of another; the call is on its last line."""
    parts = [HEAD]
    for i, call in enumerate(kernels):
        parts.append(
            f"@T.prim_func\ndef k{i}(A: T.Tensor((64,), 'float32'), Z: T.Tensor((64,), 'float32')):\n"
            f"    with T.Kernel(1, threads=128):\n        {call}\n"
        )
    return "".join(parts)


def reported(source: str) -> dict[int, list]:
    found = check_analysis(analyse(SourceFile("kinds.py", source)), [find(t) for t in DECLARED], API, explicit=False)
    by_line: dict[int, list] = {}
    for d in found:
        by_line.setdefault(d.span.line, []).append(d)
    return by_line


def line_of(number: int) -> int:
    return HEAD.count("\n") + 4 * (number + 1)


# -- every name ----------------------------------------------------------------------------------
def faulty_argument(name: str) -> tuple[str, str] | None:
    """A call with one argument of a wrong kind, and that argument's text; None if the name takes no argument."""
    if API.kind(name) == "dtype":
        return f"T.{name}({{}})", "{}"
    ordered = [p for p in parameters(name) if p.kind in ("positional_only", "positional_or_keyword", "var_positional")]
    for at, parameter in enumerate(ordered):
        accepts = kind(name, parameter)
        wrong = next((w for w, form in WRONG.items() if accepts is not None and not accepts.takes(form, w.strip("'"))), None)
        if wrong is not None:
            before = ["unknown()"] * at
            after = ["unknown()" for p in ordered[at + 1 :] if not p.has_default and p.kind != "var_positional"]
            keywords = [f"{p.name}=unknown()" for p in parameters(name) if p.kind == "keyword_only" and not p.has_default]
            return f"T.{name}({', '.join([*before, wrong, *after, *keywords])})", wrong
    for parameter in (p for p in parameters(name) if p.kind == "keyword_only"):
        accepts = kind(name, parameter)
        wrong = next((w for w, form in WRONG.items() if accepts is not None and not accepts.takes(form, w.strip("'"))), None)
        if wrong is not None:
            return f"T.{name}({parameter.name}={wrong})", wrong
    return None


@lru_cache(maxsize=1)
def kinds_by_name() -> dict[str, tuple[str, list]]:
    faulty = {n: faulty_argument(n) for n in CALLED}
    calls = {n: f for n, f in faulty.items() if f is not None}
    found = reported("from elsewhere import unknown\n" + lines_of([c for c, _ in calls.values()]))
    return {n: (text, found.get(line_of(i) + 1, [])) for i, (n, (_, text)) in enumerate(calls.items())}


@pytest.mark.parametrize("name", CALLED)
def test_a_wrong_kind_is_found(name: str) -> None:
    if name not in kinds_by_name():
        assert all(p.name in OPEN for p in parameters(name)), f"T.{name} takes arguments of no kind"
        return
    text, found = kinds_by_name()[name]
    if name in MISPLACED:
        assert any(d.severity == "error" for d in found)
        return
    faults = [d for d in found if d.name == "argument-kind"]
    assert len(faults) == 1, (text, [(d.name, d.message) for d in found])
    assert faults[0].span.end_column - faults[0].span.column == len(text)


@pytest.mark.parametrize("name", CALLED)
def test_every_parameter_has_a_kind(name: str) -> None:
    if API.kind(name) == "dtype":
        return
    without = [p.name for p in parameters(name) if kind(name, p) is None]
    assert set(without) <= OPEN, without


@lru_cache(maxsize=1)
def surplus_by_name() -> dict[str, list]:
    def call(name: str) -> str:
        return f"T.{name}({', '.join(['unknown()'] * (len(parameters(name)) + 1))})"

    found = reported("from elsewhere import unknown\n" + lines_of([call(n) for n in CALLED]))
    return {n: [d.name for d in found.get(line_of(i) + 1, [])] for i, n in enumerate(CALLED)}


@lru_cache(maxsize=1)
def keywords_by_name() -> dict[str, list]:
    found = reported("from elsewhere import unknown\n" + lines_of([f"T.{n}(no_such_parameter=unknown())" for n in CALLED]))
    return {n: [d.name for d in found.get(line_of(i) + 1, [])] for i, n in enumerate(CALLED)}


@pytest.mark.parametrize("name", CALLED)
def test_wrong_counts_and_keywords_are_found(name: str) -> None:
    kinds = {p.kind for p in API.parameters(name) or ()}
    if "var_positional" not in kinds and not name.startswith("_"):
        assert "wrong-arity" in surplus_by_name()[name]
    if "var_keyword" not in kinds and not name.startswith("_"):
        assert "unknown-keyword" in keywords_by_name()[name]


def test_all_names_are_looked_at() -> None:
    assert len(NAMES) > 700
    assert [n for n in NAMES if n not in CALLED] == ["GemmWarpPolicy"]


# -- pairs by family -----------------------------------------------------------------------------
# The arguments around a wrong one, and the right one in its place: (before, wrong, right, after).
PAIRS = {
    "allocation": ("s = T.alloc_shared(", "'float16'", "(64,)", ", 'float16')"),
    "allocated type": ("s = T.alloc_shared((64,), ", "(64,)", "T.float16", ")"),
    "barrier": ("b = T.alloc_barrier(", "'128'", "128", ")"),
    "copy": ("T.copy(A, ", "1.0", "Z", ")"),
    "copy hint": ("T.copy(A, Z, coalesced_width=", "'wide'", "4", ")"),
    "fill": ("s = T.alloc_shared((64,), 'float32'); T.fill(s, ", "s", "0.0", ")"),
    "loop": ("for i in T.serial(", "A", "4", "): pass"),
    "pipelined loop": ("for i in T.Pipelined(4, num_stages=2, order=", "0", "[]", "): pass"),
    "reduction": ("s = T.alloc_shared((64, 1), 'float32'); g = T.alloc_shared((1,), 'float32'); T.reduce_sum(s, g, dim=", "'0'", "0", ")"),
    "scan": ("s = T.alloc_shared((64,), 'float32'); T.cumsum(s, dim=0, reverse=", "'yes'", "True", ")"),
    "atomic": ("T.atomic_add(A[0], 1.0, return_prev=", "'no'", "False", ")"),
    "mathematics": ("x = T.exp(", "A", "A[0]", ")"),
    "minimum": ("x = T.min(", "(1, 2)", "1", ", 2)"),
    "condition": ("x = T.if_then_else(A[0] > 0, ", "A", "A[1]", ", 0.0)"),
    "conversion": ("x = T.cast(A[0], ", "16", "'float16'", ")"),
    "type called": ("x = T.float16(", "[1]", "A[0]", ")"),
    "infinity": ("x = T.float32(", "'infinite'", "'inf'", ")"),
    "shuffle": ("x = T.shfl_xor(", "A", "A[0]", ", 1)"),
    "vote": ("x = T.any_sync(", "'true'", "A[0] > 0", ")"),
    "thread index": ("x = T.get_thread_binding(", "'x'", "0", ")"),
    "reducer": ("r = T.alloc_reducer((1,), 'float32', op=", "1", "'sum'", ")"),
    "layout": ("s = T.alloc_shared((64,), 'float32'); T.annotate_layout(", "[s]", "{}", ")"),
    "swizzle": ("T.use_swizzle(", "'8'", "8", ")"),
    "pointer": ("p = T.access_ptr(", "0", "A", ", 'r')"),
    "access": ("p = T.access_ptr(A, ", "'read'", "'r'", ")"),
    "view": ("v = T.view(", "64", "A", ", (8, 8))"),
    "random": ("T.rng_init(", "'seed'", "7", ")"),
    "print": ("T.print(A[0], msg=", "1", "'a'", ")"),
    "assertion": ("T.device_assert(A[0] > 0, ", "3", "'positive'", ")"),
    "external": ("T.call_extern('handle', ", "3", "'f'", ", A.data)"),
}  # fmt: skip


@lru_cache(maxsize=1)
def pairs_reported() -> dict[tuple[str, bool], list]:
    keys = [(name, right) for name in PAIRS for right in (False, True)]
    calls = [before + (good if right else bad) + after for (before, bad, good, after), right in ((PAIRS[n], r) for n, r in keys)]
    found = reported(lines_of(calls))
    return {key: found.get(line_of(i), []) for i, key in enumerate(keys)}


@pytest.mark.parametrize("family", PAIRS)
def test_wrong_and_right(family: str) -> None:
    before, wrong, _, _ = PAIRS[family]
    faults = [d for d in pairs_reported()[family, False] if d.name == "argument-kind"]
    assert len(faults) == 1, [(d.name, d.message) for d in pairs_reported()[family, False]]
    column = 8 + len(before) + 1
    assert (faults[0].span.column, faults[0].span.end_column) == (column, column + len(wrong))
    assert not [d for d in pairs_reported()[family, True] if d.severity == "error"]


def test_kinds_follow_the_release() -> None:
    """Up to 0.1.7 a barrier was a number."""
    source = lines_of(["T.mbarrier_wait_parity(0, 0)"])
    older = check_analysis(analyse(SourceFile("kinds.py", source)), [find("sm_90a")], manifest.load("0.1.5"))
    newest = check_analysis(analyse(SourceFile("kinds.py", source)), [find("sm_90a")], API)
    assert "argument-kind" in {d.name for d in newest}
    assert "argument-kind" not in {d.name for d in older}


def test_top_level_functions() -> None:
    head = "import tilelang\nimport tilelang.language as T\n\n\n"
    tail = "def f(n):\n    @T.prim_func\n    def main(A: T.Tensor((n,), 'float32')):\n        with T.Kernel(1, threads=32):\n            A[0] = 0.0\n\n    return main\n"
    wrong = reported(f"{head}@tilelang.jit(pass_configs='fast')\n{tail}")
    right = reported(f"{head}@tilelang.jit(pass_configs={{}})\n{tail}")
    assert [d.name for d in wrong[5]] == ["argument-kind"]
    assert not right
