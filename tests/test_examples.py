"""The examples: checked, lowered for every target where they are legal, assembled, and run on the CPU against torch."""
from __future__ import annotations

import importlib.util
import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tilec.evaluate import analyse, instantiate
from tilec.ir.buffer import Buffer
from tilec.ir.build import const_int
from tilec.pipeline import compile_program, outputs_of
from tilec.source import SourceFile
from tilec.target.chips import find

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BROKEN = ROOT / "examples" / "broken"
CUDA_TARGETS = ("sm_80", "sm_90a", "sm_100a")


def program_of(path: Path, number: int = 0):
    analysis = analyse(SourceFile(str(path), path.read_text(encoding="utf-8")))
    assert not analysis.instance_errors
    kernel = analysis.kernels[0]
    program = instantiate(analysis, kernel, kernel.instances[number])
    assert program.attrs["incomplete"] is None
    return program, kernel.instances[number]


def tile_lsp(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tile_lsp", *arguments], capture_output=True, text=True, cwd=ROOT, check=False)


def legal_targets(path: Path) -> tuple[str, ...]:
    return ("sm_100a",) if "alloc_tmem" in path.read_text(encoding="utf-8") else CUDA_TARGETS


def test_examples_check_clean():
    done = tile_lsp("check", "examples")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.strip().splitlines()) == 1


def test_broken_examples_report_exactly_what_was_planted():
    done = tile_lsp("check", "examples/broken", "--output-format", "json")
    assert done.returncode == 1
    found = [{"file": Path(d["path"]).name, "line": d["range"]["start"]["line"], "column": d["range"]["start"]["column"],
              "end_line": d["range"]["end"]["line"], "end_column": d["range"]["end"]["column"], "name": d["name"], "severity": d["severity"]}
             for d in json.loads(done.stdout)]
    expected = json.loads((BROKEN / "expected.json").read_text(encoding="utf-8"))
    key = lambda d: json.dumps(d, sort_keys=True)  # noqa: E731
    assert sorted(found, key=key) == sorted(expected, key=key)


@pytest.mark.parametrize("path, target", [(p, t) for p in EXAMPLES for t in legal_targets(p)], ids=lambda v: v.stem if isinstance(v, Path) else v)
def test_lowers_to_cuda(path: Path, target: str):
    program, _ = program_of(path)
    artifact = compile_program(program, find(target))
    text = artifact.text("cuda")
    assert "__global__ void __launch_bounds__" in text
    lines = {line for _, _, line in artifact.runs("cuda")}
    assert len(lines) >= 3, "the CUDA text is traced back to source lines"


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("path, target", [(p, t) for p in EXAMPLES for t in legal_targets(p)], ids=lambda v: v.stem if isinstance(v, Path) else v)
def test_assembles(path: Path, target: str):
    program, _ = program_of(path)
    artifact = compile_program(program, find(target))
    resources = artifact.cubin().resources
    assert resources and all(r.spill_bytes == 0 for r in resources.values()), resources


# -- on the CPU, against the reference in the file ---------------------------------------------------------------------------
def load(path: Path, monkeypatch: pytest.MonkeyPatch):
    """The module with inert TileLang, for its reference function."""
    import types

    class Inert:
        def __getattr__(self, name):
            return Inert()

        def __call__(self, *args, **kwargs):
            return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else Inert()

    def attribute(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert()

    for name in ("tilelang", "tilelang.language"):
        module = types.ModuleType(name)
        module.__getattr__ = attribute  # type: ignore[method-assign]
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def extra_arguments(program, instance, module):
    """Arguments of the instance that the reference takes by name, such as is_causal; tensors go by position."""
    tensors = {p.name for p in program.params}
    return {k: v for k, v in instance.kwargs.items() if k in inspect.signature(module.reference).parameters and k not in tensors}


def make_inputs(program, module, torch):
    if hasattr(module, "inputs"):
        shapes = [[const_int(e) for e in p.shape] for p in program.params]
        return list(module.inputs(shapes[0][0], shapes[1][1], shapes[0][1]))
    sizes = dict.fromkeys(program.dynamic, 200)
    made = []
    for p in program.params:
        assert isinstance(p, Buffer)
        shape = [const_int(e) if const_int(e) is not None else sizes[e] for e in p.shape]
        dtype = getattr(torch, p.dtype)
        if p in program.outputs:
            made.append(torch.full(shape, float("nan"), dtype=dtype))
        elif dtype == torch.uint8:
            made.append(torch.randint(0, 256, shape, dtype=dtype))
        else:
            made.append(torch.randn(shape).to(dtype))
    return made


@pytest.mark.parametrize("path, number", [(p, 0) for p in EXAMPLES] + [(ROOT / "examples" / "flash_attention.py", 1)],
                         ids=lambda v: v.stem if isinstance(v, Path) else str(v))
def test_runs_on_the_cpu(path: Path, number: int, monkeypatch: pytest.MonkeyPatch):
    torch = pytest.importorskip("torch")
    program, instance = program_of(path, number)
    kernel = compile_program(program, find("cpu")).host_callable()
    module = load(path, monkeypatch)
    torch.manual_seed(0)
    tensors = make_inputs(program, module, torch)
    given = [t.clone() for t, p in zip(tensors, program.params) if p not in program.outputs]
    kernel(*tensors)
    extra = extra_arguments(program, instance, module)
    expected = module.reference(*given, **extra)
    actual = next(t for t, p in zip(tensors, program.params) if p in outputs_of(program))
    torch.testing.assert_close(actual.float(), expected.float(), rtol=2e-2, atol=2e-2)


# -- on the GPU ----------------------------------------------------------------------------------------------------------------
def gpu_target():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    from tilec.runtime.gpu import local_target

    return local_target()


@pytest.mark.gpu
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_runs_on_the_gpu(path: Path, number: int, monkeypatch: pytest.MonkeyPatch):
    """Every instance of every example that is legal on this GPU, against the reference on the same device."""
    target = gpu_target()
    import torch
    from tilec.runtime.gpu import GpuKernel

    if "alloc_tmem" in path.read_text(encoding="utf-8") and not target.tcgen05:
        pytest.skip(f"{target.name} has no tensor memory")
    analysis = analyse(SourceFile(str(path), path.read_text(encoding="utf-8")))
    if number >= len(analysis.kernels[0].instances):
        pytest.skip("fewer instances")
    program, instance = program_of(path, number)
    kernel = GpuKernel(compile_program(program, target))
    module = load(path, monkeypatch)
    torch.manual_seed(number)
    tensors = [t.cuda() for t in make_inputs(program, module, torch)]
    given = [t.clone() for t, p in zip(tensors, program.params) if p not in program.outputs]
    before = [t.clone() for t in tensors]
    kernel(*tensors)
    torch.cuda.synchronize()
    extra = extra_arguments(program, instance, module)
    expected = module.reference(*given, **extra)
    position = next(i for i, p in enumerate(program.params) if p in outputs_of(program))
    torch.testing.assert_close(tensors[position].float(), expected.float(), rtol=2e-2, atol=3e-2)
    if "atomic" not in path.read_text(encoding="utf-8"):
        kernel(*before)
        torch.cuda.synchronize()
        assert torch.equal(before[position], tensors[position]), "a second launch gives other bits: a race"
