"""A pytest plugin that keeps every kernel that tests compile, as CUDA text, and launches none: neither GPU nor memory is needed.

    python [-m tilec] -m pytest FILE -p capture_kernels        CAPTURE_OUT=FOLDER CAPTURE_ARCH=sm_90a

It serves both compilers: TileLang's own, and this one where ``tilelang`` is served by tilec. The chip of CAPTURE_ARCH is what the test
sees as its GPU; CAPTURE_MORE names further chips that the same programs are lowered for. Tensors on it have shapes and no values; a
call of a kernel gives its outputs, uncomputed, and every comparison holds. The texts go to FOLDER with one line of ``index.jsonl`` for
each kernel and chip (``error`` in place of ``file`` where it was refused). Tests that stop early are told in ``stopped.jsonl``.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
import torch.fx.experimental._config
from torch.overrides import TorchFunctionMode


# -- a GPU without memory ----------------------------------------------------------------------------------------------------------
def _is_cuda(value: Any) -> bool:
    return (isinstance(value, str) and value.startswith("cuda")) or (isinstance(value, torch.device) and value.type == "cuda")


class _NoMemory(TorchFunctionMode):
    """Tensors of the device ``cuda`` have shapes alone; questions about values have a fixed answer."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        if name in ("cuda", "cpu") and args and isinstance(args[0], torch.Tensor):
            return args[0].to("meta") if name == "cuda" and not _is_table(args[0]) else args[0]
        if name == "to" and args and _is_table(args[0]) and any(map(_is_cuda, (*args[1:], kwargs.get("device")))):
            return args[0]
        if name == "tensor" and _is_cuda(kwargs.get("device")):
            kwargs["device"] = "cpu"
            made = function(*args, **kwargs)
            return made if _is_table(made) else made.to("meta")
        if name == "__get__" and owner is torch.Tensor.is_cuda:
            return args[0].device.type == "meta"
        if name in _ANSWERS and any(isinstance(a, torch.Tensor) and a.is_meta for a in args):
            return _ANSWERS[name](*args, **kwargs)
        if name in ("allclose", "equal"):
            return True
        if _is_cuda(kwargs.get("device")) or kwargs.get("generator") is not None:
            kwargs["device"] = "meta"
        kwargs.pop("generator", None) if kwargs.get("device") == "meta" else None
        return function(*["meta" if _is_cuda(a) else a for a in args], **kwargs)


def _is_table(tensor: Any) -> bool:
    """Sizes, offsets and the like, which programs compute with: they keep their values."""
    return tensor.device.type == "cpu" and not tensor.dtype.is_floating_point and tensor.numel() <= 4096


def _listed(tensor: Any) -> Any:
    return torch.zeros(tensor.shape, dtype=tensor.dtype).tolist()


_ANSWERS: dict[str, Callable[..., Any]] = {
    "item": lambda t: t.dtype.is_floating_point and 1.0 or 1, "tolist": _listed, "__bool__": lambda t: True, "__int__": lambda t: 1, "__float__": lambda t: 1.0,
    "__index__": lambda t: 1, "numpy": lambda t: torch.zeros(t.shape, dtype=t.dtype).numpy(), "__repr__": lambda t, **k: f"tensor{tuple(t.shape)}",
    "__format__": lambda t, spec: "tensor", "nonzero": lambda t, **k: torch.zeros((1, t.dim()), dtype=torch.int64, device="meta"),
    "unique": lambda t, **k: torch.zeros((1,), dtype=t.dtype, device="meta"),
}


class _Event:
    def __init__(self, *args: Any, **kwargs: Any):
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: 1.0


def fake_gpu(capability: tuple[int, int]) -> None:
    """``torch.cuda`` as on a machine with one GPU."""
    cuda = torch.cuda
    properties = types.SimpleNamespace(name="NVIDIA H200", major=capability[0], minor=capability[1], multi_processor_count=132, total_memory=140 << 30,
                                       shared_memory_per_block_optin=232448, warp_size=32, L2_cache_size=50 << 20)
    answers: dict[str, Any] = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0, "get_device_name": lambda *a: properties.name,
        "get_device_capability": lambda *a: capability, "get_device_properties": lambda *a: properties, "synchronize": lambda *a: None,
        "manual_seed": lambda *a: None, "manual_seed_all": lambda *a: None, "empty_cache": lambda: None, "Event": _Event, "Stream": _Event,
        "current_stream": lambda *a: types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None), "set_device": lambda *a: None, "init": lambda: None,
    }
    for name, answer in answers.items():
        setattr(cuda, name, answer)
    torch.testing.assert_close = lambda *a, **k: None
    torch.fx.experimental._config.meta_nonzero_assume_all_nonzero = True
    default = torch.set_default_device
    torch.set_default_device = lambda device: default("meta" if _is_cuda(device) else device)


_REFERENCES = ("flash_attn", "fla", "flash_mla", "deep_gemm", "bitsandbytes", "vllm")  # packages that tests compare with


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages that only references need, where they are not installed: every name in them is something that can be called."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in _REFERENCES:
            return None
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename and frame.f_back is not None:
            frame = frame.f_back
        if "site-packages" in frame.f_code.co_filename:  # torch asks what is there
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        module = types.ModuleType(spec.name)
        module.__dict__["__getattr__"] = _stand_in
        return module

    def exec_module(self, module: Any) -> None:
        pass


def _stand_in(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name.endswith("_fwd"):  # l2norm_fwd and the like: the normalised tensor, which looks like the given one, and a statistic
        return lambda tensor, *args, **kwargs: (tensor, None)
    return MagicMock(name=name)


# -- what is kept -----------------------------------------------------------------------------------------------------------------
class Record:
    """The folder of texts and its index."""

    def __init__(self, folder: Path):
        self.folder, self.script, self.test = folder, "", ""
        self._counts: dict[str, int] = {}
        self._seen: set[tuple[str, ...]] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, kernel: str, results: dict[str, dict[str, Any]]) -> None:
        """``results`` by chip: ``text`` and flags, or ``error``. The same text again is not kept."""
        same = (self.script, kernel, *(f"{arch}:{r.get('text') or r.get('error')}" for arch, r in results.items()))
        if same in self._seen:
            return
        self._seen.add(same)
        name = f"{self.script}:{kernel}"
        number = self._counts[name] = self._counts.get(name, -1) + 1
        with (self.folder / "index.jsonl").open("a", encoding="utf-8") as index:
            for arch, result in results.items():
                entry = {"script": self.script, "test": self.test, "kernel": kernel, "number": number, "arch": arch}
                text = result.pop("text", None)
                if text is not None:
                    path = self.folder / f"{Path(self.script).stem}.{kernel}.{number}.{arch}.cu"
                    path.write_text(text, encoding="utf-8")
                    entry["file"] = path.name
                index.write(json.dumps({**entry, **result}) + "\n")


def architectures() -> list[str]:
    return [a for a in (os.environ["CAPTURE_ARCH"], *os.environ.get("CAPTURE_MORE", "").split(",")) if a]


def capability_of(arch: str) -> tuple[int, int]:
    number = int("".join(c for c in arch if c.isdigit()))
    return number // 10, number % 10


def _message(error: BaseException) -> str:
    return " ".join(str(error).split())[:600] or type(error).__name__


# -- this compiler ------------------------------------------------------------------------------------------------------------------
def hook_ours(record: Record) -> None:
    from tilec.jit import autotune, kernel, profiler, targets
    from tilec.jit.errors import CompileError
    from tilec.served.hook import Finder
    from tilec.target import chips
    from tilec.transform.configs import FAST_MATH, is_set

    next(f for f in sys.meta_path if isinstance(f, Finder))._names.add("tvm")  # as where no TVM is installed
    chip = chips.find(architectures()[0])
    targets.capability = lambda: capability_of(chip.name)
    targets._has_gpu = lambda: True
    targets._local = lambda: chip
    checked, lowered = kernel.refuse_faulty, kernel._lower

    def text_for(program: Any, target: Any) -> tuple[Any, dict[str, Any]]:
        try:
            checked(program, target)
            artifact = lowered(program, target)
            module = artifact.cuda()
        except (CompileError, kernel.LoweringError) as error:
            return None, {"error": _message(kernel.CompileError(kernel.with_place(str(error), getattr(error, "span", None)))), "diagnostic": True}
        except Exception as error:  # a fault of the compiler, shown as one
            return None, {"error": f"{type(error).__name__}: {_message(error)}"}
        shared = max((k.shared_bytes for k in module.kernels if isinstance(k.shared_bytes, int)), default=0)
        return artifact, {"text": module.text, "fast_math": is_set(program, FAST_MATH), "dynamic_shared": shared}

    def lower(program: Any, target: Any) -> Any:
        results = {}
        for arch in [target.name, *architectures()[1:]] if target.kind == "cuda" else ():
            artifact, results[arch] = text_for(program, chips.find(arch))
            if arch == target.name:
                made = artifact
        record.add(program.name, results)
        return made if results else None

    kernel.refuse_faulty = lambda program, target: None
    kernel._lower = lower
    kernel.JITKernel._load = lambda self: Unlaunched()
    kernel.JITKernel._text = lambda self, stage: self.artifact.text(stage) if self.artifact is not None else ""
    profiler.Profiler.assert_allclose = lambda self, *a, **k: None
    profiler.Profiler.do_bench = lambda self, *a, **k: 1.0
    first_only = autotune.AutoTuner.__init__
    autotune.AutoTuner.__init__ = lambda self, make, configs: first_only(self, make, list(configs)[:1])
    autotune.AutoTuner._measure = lambda self, *a, **k: 1.0
    kernel.JITKernel.build = lambda self: self


class Unlaunched:
    """What stands for a loaded kernel: a call makes the outputs, and nothing is checked."""

    def checked(self, arguments: Any, made: Any = (), returned: Any = ()) -> Unlaunched:
        outputs = [arguments[i] for i in returned]  # those to be made are there already, without memory
        self.attempt = lambda args: None if not outputs else outputs[0] if len(outputs) == 1 else outputs
        return self

    def call(self, general: Any) -> Any:
        return general


# -- TileLang -------------------------------------------------------------------------------------------------------------------------
class PeerKernel:
    """What stands for a compiled kernel: its call makes the outputs."""

    def __init__(self, prim_func: Any, out_idx: Any, source: str):
        self.prim_func, self.source = prim_func, source
        self.params = list(prim_func.params)
        self.buffers = [prim_func.buffer_map.get(p) for p in self.params]
        count = len(self.params)
        self.outputs = [] if out_idx is None else [i % count for i in (out_idx if isinstance(out_idx, (list, tuple)) else [out_idx])]
        self.latency, self.config, self.artifact, self.adapter = 1.0, {}, None, None

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        return self.source

    def get_profiler(self, *args: Any, **kwargs: Any) -> Any:
        return types.SimpleNamespace(assert_allclose=lambda *a, **k: None, do_bench=lambda *a, **k: 1.0, assert_consistent=lambda *a, **k: None,
                                     run_once=lambda *a, **k: None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.outputs or len(args) == len(self.params):
            return None
        inputs = [b for i, b in enumerate(self.buffers) if i not in self.outputs]
        values: dict[Any, int] = {}
        for buffer, tensor in zip(inputs, args):
            for extent, found in zip(buffer.shape if buffer is not None else (), getattr(tensor, "shape", ())):
                values.setdefault(extent, int(found))
        made = [torch.empty([self._extent(e, values) for e in self.buffers[i].shape], dtype=_torch_dtype(str(self.buffers[i].dtype)), device="meta")
                for i in self.outputs]
        return made[0] if len(made) == 1 else made

    @staticmethod
    def _extent(extent: Any, values: dict[Any, int]) -> int:
        from tilelang import tvm

        if hasattr(extent, "value"):
            return int(extent.value)
        known = {v: tvm.tirx.IntImm(v.dtype, n) for v, n in values.items() if isinstance(v, tvm.tirx.Var)}
        found = tvm.arith.Analyzer().simplify(tvm.tirx.stmt_functor.substitute(extent, known))
        return int(found.value)


def _torch_dtype(name: str) -> Any:
    return getattr(torch, {"bool": "bool", "float8_e4m3": "float8_e4m3fn"}.get(name, name))


def hook_peer(record: Record) -> None:
    import tilelang
    from tilelang.autotuner import tuner
    from tilelang.contrib import nvcc
    from tilelang.engine.lower import lower

    tvm = tilelang.tvm

    def text_for(func: Any, arch: str, configs: dict[str, Any]) -> dict[str, Any]:
        target = tvm.target.Target({"kind": "cuda", "arch": arch})
        try:
            with tvm.transform.PassContext(opt_level=3, config=configs), target:
                made = lower(func, target=target)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:400] if str(error).strip() else ''}"}
        shared = max((int(f.attrs.get("dyn_shared_memory_buf", 0)) for _, f in made.device_mod.functions.items() if f.attrs is not None), default=0)
        return {"text": made.kernel_source, "fast_math": bool(configs.get("tl.enable_fast_math", False)), "dynamic_shared": shared, **_ptxas(configs)}

    def cached(func: Any = None, out_idx: Any = None, *rest: Any, pass_configs: Any = None, compile_flags: Any = None, **options: Any) -> PeerKernel:
        from tilelang.transform.pass_config import normalize_pass_configs

        configs = normalize_pass_configs(pass_configs) or {}
        results = {arch: text_for(func, arch, dict(configs)) for arch in architectures()}
        source = results[architectures()[0]].get("text", "")
        name = str(func.attrs["global_symbol"])
        record.add(name, results)
        return PeerKernel(func, out_idx, source)

    def tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        whole = kwargs.pop("__return_kernel", False)
        configs = list(self.configs(*args, **kwargs) if callable(self.configs) else self.configs or [])
        chosen = {**(configs[0] if configs else {}), **kwargs}
        chosen = {k: v for k, v in chosen.items() if k not in tuner._RESERVED_CONFIG_KEYS}
        return (self.jit_impl.compile if whole else self.jit_impl)(*args, **chosen)

    sys.modules["tilelang.jit"].cached = cached  # the name tilelang.jit in the package is a function
    tuner.AutoTuneImpl.__call__ = tuned
    tuner.AutoTuner.run = lambda self, *a, **k: types.SimpleNamespace(config={}, latency=1.0, ref_latency=1.0, kernel=self.jit_compile(**_first(self.configs)))
    version = "{}.{}".format(*capability_of(architectures()[0]))
    nvcc.get_target_compute_version = lambda *a: version
    import tilelang.profiler as profiling
    import tilelang.testing as testing

    profiling.do_bench = lambda *a, **k: 1.0
    testing.requires_cuda = _Always()
    testing.torch_assert_close = lambda *a, **k: None


class _Always:
    """A mark that never skips."""

    def __call__(self, function: Any = None, *args: Any, **kwargs: Any) -> Any:
        return function if function is not None else self

    @staticmethod
    def marks(*args: Any) -> list[Any]:
        return []


def _first(configs: Any) -> dict[str, Any]:
    found = list(configs() if callable(configs) else configs)
    return dict(found[0]) if found else {}


def _ptxas(configs: dict[str, Any]) -> dict[str, Any]:
    """Options that reach the assembler."""
    level, flags = configs.get("tl.ptxas_register_usage_level"), configs.get("tl.device_compile_flags")
    found = ([f"--ptxas-options=--register-usage-level={int(level)}"] if level is not None else []) + ([flags] if isinstance(flags, str) else [str(f) for f in flags or ()])
    return {"flags": found} if found else {}


# -- pytest -----------------------------------------------------------------------------------------------------------------------------
def pytest_configure(config: Any) -> None:
    os.environ["TILELANG_DEFAULT_TARGET"] = json.dumps({"kind": "cuda", "arch": architectures()[0]})
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    fake_gpu(capability_of(architectures()[0]))
    sys.meta_path.append(_StandIns())  # asked last
    config._captured = Record(Path(os.environ["CAPTURE_OUT"]))
    (hook_ours if "tilec" in sys.modules else hook_peer)(config._captured)
    config._no_memory = _NoMemory()
    config._no_memory.__enter__()


def pytest_pycollect_makemodule(module_path: Any, parent: Any) -> None:
    """Files of several folders in one process: each imports the modules of its own folder, whatever their names."""
    folder = os.path.realpath(module_path.parent)
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if origin and "." not in name and "examples" in origin and os.path.dirname(os.path.realpath(origin)) != folder and "site-packages" not in origin:
            del sys.modules[name]
    sys.path.insert(0, folder)


def pytest_runtest_setup(item: Any) -> None:
    item.config._captured.script, item.config._captured.test = item.path.name, item.name


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """Why a test came to an end before its last kernel."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        line = {"script": item.config._captured.script, "test": item.name, "why": _message(call.excinfo.value), "where": str(call.excinfo.traceback[-1])}
        with (item.config._captured.folder / "stopped.jsonl").open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
