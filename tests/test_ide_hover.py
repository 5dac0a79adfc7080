"""Hovers, lenses, fixes and symbols as plain answers."""
from __future__ import annotations

from lsp_kernels import FAULTY, MATMUL, place

from tile_lsp.ide import environment, fixes, hover, lenses, symbols
from tile_lsp.ide.document import Document
from tile_lsp.ide.lowered import LoweredView
from tile_lsp.ide.mechanism import mechanisms
from tile_lsp.ide.preferences import Preferences, read
from tile_lsp.ide.runs import RunResult, summary
from tile_lsp.ide.snapshot import Snapshot


def snapshot(text: str, version: str = "0.1.15", path: str = "kernels.py", chosen=None) -> Snapshot:
    document = Document(path, text)
    preferences = Preferences(tilelang_version=version)
    return Snapshot(document, preferences, environment.for_document(path, preferences), chosen=chosen)


def markdown(text: str, needle: str, offset: int = 0, **options) -> str:
    found = hover.hover(snapshot(text, **options), *place(text, needle, offset))
    assert found is not None
    return found.markdown()


def test_api_name_shows_signature_and_versions():
    text = markdown(MATMUL, "T.copy", 3)
    assert "T.copy(src, dst, *, coalesced_width=None" in text
    assert "Copies a tile" in text
    assert "TileLang 0.1.15 (chosen in the settings)" in text


def test_api_name_newer_than_the_release_says_so():
    source = MATMUL.replace("T.gemm(A_shared", "T.tcgen05_gemm(A_shared")
    text = markdown(source, "T.tcgen05_gemm", 4, version="0.1.8")
    assert "added in 0.1.9" in text
    assert "not in TileLang 0.1.8" in text


def test_buffer_shows_type_scope_and_bytes_under_the_instance():
    text = markdown(MATMUL, "A_shared,") if "A_shared," in MATMUL else ""
    assert "A_shared: (64, 32) float16" in text
    assert "dynamic shared memory · 4,096 bytes" in text
    assert "for `matmul(128, 128, 128)`" in text


def test_parameter_and_factory_argument_show_their_values():
    assert "A: (128, 128) float16" in markdown(MATMUL, "A: T.Tensor")
    assert "block_M = 64" in markdown(MATMUL, "block_M=64")
    assert "block_K = 32" in markdown(MATMUL, "block_K), dtype")


def test_statement_shows_its_lines_of_the_tile_program_and_asks_for_lowering():
    found = hover.hover(snapshot(MATMUL), *place(MATMUL, "T.gemm", 3))
    assert found is not None and found.question is not None
    assert "T.gemm(A=A_shared, B=B_shared, C=C_local" in found.markdown()
    line = place(MATMUL, "T.gemm")[0]
    assert (found.question.first_line, found.question.last_line) == (line, line)
    assert found.question.kernel == "matmul" and not found.question.whole


def test_kernel_name_shows_the_launch():
    text = markdown(MATMUL, "matmul(M, N", 2)
    assert "grid: **2 × 2**" in text
    assert "threads: **128**" in text
    found = hover.hover(snapshot(MATMUL), *place(MATMUL, "gemm(\n", 1))
    assert found is not None and found.question is not None and found.question.whole


def test_nothing_to_say_outside_kernels_and_in_empty_places():
    view = snapshot(MATMUL)
    assert hover.hover(view, 3, 1) is None
    assert hover.hover(view, 10_000, 1) is None


def test_a_kernels_name_where_it_is_called():
    text = MATMUL + "\n\nif __name__ == '__main__':\n    kernel = matmul(256, 256, 256)\n    print(kernel)\n"
    view = snapshot(text)
    line = text[:text.rindex("kernel = matmul(")].count("\n") + 1
    found = hover.hover(view, line, 14)
    assert found is not None and found.head.startswith("**matmul** — a factory") and found.question is not None and found.question.whole
    assert (found.span.line, found.span.column) == (line, 14) and hover.hover(view, line, 5) is None


def test_lowered_part_names_the_mechanism_and_quotes_the_lines():
    cuda = "void f() {\n  int x;\n  asm volatile(\"mma.sync.aligned.m16n8k16\");\n  y = 1;\n}\n"
    view = LoweredView("matmul", "matmul(1)", "sm_80", "cuda", cuda, ((3, 3, 20),))
    text = hover.lowered_markdown(hover.LoweringQuestion("matmul", "matmul(1)", 20, 20), [view])
    assert "**lowers to** (sm_80): tensor core MMA (mma.sync)" in text
    assert "asm volatile" in text and "y = 1" not in text


def test_lowered_part_tells_why_nothing_better_was_chosen():
    from tile_lsp.ide.lowering import answer

    request = {"path": "matmul.py", "text": MATMUL, "target": "sm_90a", "stage": "cuda"}
    made = answer(request)
    line = place(MATMUL, "T.gemm")[0]
    told = [text for where, text in made["facts"]["decisions"] if where == line]
    assert len(told) == 1 and told[0].startswith("T.gemm: ")
    view = LoweredView("matmul", "", "sm_90a", "cuda", made["text"], tuple(map(tuple, made["lines"])), made["facts"])
    assert f"\n- {told[0]}" in hover.lowered_markdown(hover.LoweringQuestion("matmul", "", line, line), [view])
    assert told[0] not in hover.lowered_markdown(hover.LoweringQuestion("matmul", "", line - 1, line - 1), [view])


def test_mechanisms_are_found_behind_helper_functions():
    cuda = ("__device__ __forceinline__ void mma_16816(float* c) {\n  asm volatile(\"mma.sync.aligned\");\n}\n"
            "__global__ void k() {\n  mma_16816(c);\n}\n")
    view = LoweredView("k", "k()", "sm_80", "cuda", cuda, ((5, 5, 7),))
    text = hover.lowered_markdown(hover.LoweringQuestion("k", "k()", 7, 7), [view])
    assert "mma.sync" in text.splitlines()[0]


def test_a_tensor_copy_is_not_told_again_as_a_bulk_copy():
    assert mechanisms("cp.async.bulk.tensor.2d.shared") == ["tensor copy by the TMA unit (cp.async.bulk.tensor)"]


def test_a_lowering_error_is_one_line():
    view = LoweredView("k", "k()", "sm_80", "cuda", error="no tensor cores for int3")
    assert hover.lowered_markdown(hover.LoweringQuestion("k", "k()", 1, 1), [view]) == "not lowered for sm_80: no tensor cores for int3"


def test_lenses_and_the_result_of_a_run():
    view = snapshot(MATMUL)
    found = lenses.lenses(view, {}, ())
    assert [lens.title for lens in found] == ["▶ Run", "Compare", "CUDA"]
    assert found[0].arguments == {"kernel": "matmul", "instance": "matmul(128, 128, 128)"}
    data = {"ok": True, "max_abs_err": 4.9e-4, "latency_ms": {"median": 0.1951}, "target": "cpu"}
    result = RunResult(data, view.document.key)
    assert lenses.lenses(view, {("matmul", "matmul(128, 128, 128)"): result}, ())[3].title == "✓ max err 4.9e-4 · 0.195 ms · cpu"
    edited = snapshot(MATMUL + "\n# more\n")
    assert lenses.lenses(edited, {("matmul", "matmul(128, 128, 128)"): result}, ())[3].title.endswith("· edited since")


def test_a_failed_run_says_why_in_the_lens():
    assert summary({"ok": False, "error": "the kernel took\nlonger than 5 s"}) == "✗ the kernel took longer than 5 s"
    assert summary({"ok": False, "max_abs_err": 3.0, "target": "cpu"}) == "✗ max err 3.0e0 · cpu"


def test_instances_can_be_switched():
    source = MATMUL + "kernel2 = matmul(256, 128, 128)\n"
    chosen: dict[str, str] = {}
    view = snapshot(source, chosen=chosen)
    assert lenses.lenses(view, {}, ())[-1].title == "matmul(128, 128, 128) (1 of 2)"
    chosen["matmul"] = "matmul(256, 128, 128)"
    assert "grid: **2 × 4**" in hover.hover(view, *place(source, "matmul(M", 1)).markdown()


def test_quick_fix_of_a_misspelt_name():
    view = snapshot(FAULTY)
    line = place(FAULTY, "Paralel")[0]
    found = fixes.actions(view, line, line)
    fix, ignore = [a for a in found if a.edits]
    assert [e.text for e in fix.edits] == ["Parallel"] and fix.preferred
    assert [e.text for e in ignore.edits] == ["  # tile-lsp: ignore[TL101]"] and not ignore.preferred
    assert [a.title for a in found if a.command] == [
        "Compile and run scale", "Compare scale with the tile interpreter", "Compare scale with its reference function", "Show the CUDA code of scale"]


def test_symbols_list_kernels_and_buffers():
    (kernel,) = symbols.symbols(snapshot(MATMUL))
    assert kernel.name == "matmul"
    assert [c.name for c in kernel.children] == ["A", "B", "C", "A_shared", "B_shared", "C_local"]


def test_python_without_tilelang_is_left_alone():
    assert snapshot("def f(:\n").diagnostics() == []
    assert snapshot("\0\1\2tilelang").diagnostics() == []


def test_preferences_name_what_they_do_not_understand():
    found, complaints = read({"target": "sm_9000", "select": "TL1", "runTimeout": 5, "other": 1})
    assert found.run_timeout == 5.0 and found.target == ""
    assert len(complaints) == 2 and "sm_9000" in complaints[0]
    assert read({"target": "hopper"})[0].target == "sm_90a"


def test_a_faulty_kernel_says_where_instead_of_its_lowered_code():
    view = snapshot(FAULTY)
    here = hover.hover(view, *place(FAULTY, "block_N):"))
    assert here is None or here.question is None
    elsewhere = hover.hover(view, *place(FAULTY, "T.Kernel", 3))
    line = place(FAULTY, "Paralel")[0]
    assert elsewhere.question is None and f"not lowered: TL101 in line {line}" in elsewhere.markdown()
