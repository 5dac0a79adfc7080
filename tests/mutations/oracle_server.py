"""Lowers kernel files with the real TileLang, one forked process each. Runs in an environment that has tilelang:

    python oracle_server.py            one JSON job a line on stdin, one JSON verdict a line on stdout

A job is ``{"path", "kernel", "call", "target", "nvcc"}``; ``call`` is the text of the arguments the kernel is made with, or None
to import the file only; ``kernel`` "script:NAME" calls a function of the file instead. A verdict has ``stage`` (None: accepted), the
exception's class, the first line of its message and the line of the file it was raised from.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import unittest.mock

SECONDS = 90


class Stage(Exception):
    def __init__(self, name, error):
        super().__init__(str(error))
        self.name, self.error = name, error


def load(path):
    import importlib.util

    spec = importlib.util.spec_from_file_location("mutant", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutant"] = module
    spec.loader.exec_module(module)
    return module


def tensor(shape, dtype):
    import torch

    return torch.empty(shape, dtype=getattr(torch, dtype))


def trace(module, job):
    """The prim_func of a kernel, its pass configurations and out_idx."""
    import tilelang

    space = dict(vars(module), tensor=tensor, tilelang=tilelang)
    made = eval(job["kernel"], space)
    args, kwargs = eval(f"(lambda *a, **k: (a, k))({job['call']})", space)
    function = made.get_tir(*args, **kwargs) if hasattr(made, "get_tir") else made(*args, **kwargs)
    if not hasattr(function, "params"):
        raise TypeError(f"the factory returned {type(function).__name__}, no prim_func")
    return function, dict(getattr(made, "pass_configs", None) or {}), getattr(made, "out_idx", None)


def lower(function, configs, out_idx, target):
    from tilelang import tvm
    from tilelang.jit.abi import prepare_tvm_ffi_callee_allocated_outputs

    try:
        attrs = dict(function.attrs or {})
        if "tilelang_out_idx" in attrs and out_idx is not None:
            raise ValueError("out_idx and T.empty tensors exclude each other")
        function, _ = prepare_tvm_ffi_callee_allocated_outputs(function, out_idx, supports_callee_allocated_outputs=True)
    except Exception as error:
        raise Stage("abi", error) from error
    import tilelang.engine.lower  # noqa: F401 - the package attribute of this name is a function

    engine = sys.modules["tilelang.engine.lower"]
    where = {"stage": "lowering"}
    generate = engine.device_codegen_without_compile

    def codegen(*a):
        where["stage"] = "codegen"
        return generate(*a)

    engine.device_codegen_without_compile = codegen
    try:
        with tvm.transform.PassContext(opt_level=3, config=configs), target:
            return engine.lower(function, target=target).kernel_source
    except BaseException as error:
        raise Stage(where["stage"], error) from error


def assemble(source, arch):
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    with tempfile.TemporaryDirectory() as folder:
        cu = os.path.join(folder, "kernel.cu")
        with open(cu, "w") as f:
            f.write(source)
        done = subprocess.run([shutil.which("nvcc") or "nvcc", "-cubin", f"-arch={arch}", "-std=c++17", "-w", "-I" + TILELANG_TEMPLATE_PATH,
                               "-I" + CUTLASS_INCLUDE_DIR, "-o", os.path.join(folder, "kernel.cubin"), cu], capture_output=True, text=True)  # fmt: skip
        if done.returncode:
            lines = [x for x in (done.stdout + done.stderr).splitlines() if "error" in x.lower()] or ["nvcc failed"]
            raise Stage("nvcc", RuntimeError(lines[0]))


def call_script(module, name):
    """Run a function of the file, with kernels that are not compiled: it is about their calls."""
    kernels = sys.modules["tilelang.jit.kernel"]  # the package attribute "jit" is a function

    kernels.JITKernel._compile_and_create_adapter = lambda *a, **k: unittest.mock.MagicMock()
    try:
        getattr(module, name)()
    except BaseException as error:
        raise Stage("call", error) from error


def judge(job):
    from tilelang import tvm

    spec = {"kind": "cuda", "arch": job["target"]}
    os.environ.update(TILELANG_DEFAULT_TARGET=json.dumps(spec), TILELANG_DISABLE_CACHE="1")
    target = tvm.target.Target(spec)
    try:
        with target:
            module = load(job["path"])
    except BaseException as error:
        raise Stage("import", error) from error
    if job["kernel"].startswith("script:"):
        return call_script(module, job["kernel"].removeprefix("script:"))
    if job["call"] is None:
        return None
    try:
        with target:
            function, configs, out_idx = trace(module, job)
    except BaseException as error:
        raise Stage("frontend", error) from error
    source = lower(function, configs, out_idx, target)
    if job.get("nvcc"):
        assemble(source, job["target"])
    return None


def raised_at(error, path):
    """The line of the file an exception came from: the innermost frame in it, or the span TileLang prints."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    if lines:
        return lines[-1]
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno
    found = re.findall(re.escape(os.path.basename(path)) + r"[\":, line]*(\d+)", str(error))
    return int(found[-1]) if found else None


def first_line(error):
    lines = [x.strip() for x in str(error).splitlines() if x.strip() and not x.lstrip().startswith(("File", "Traceback", "@"))]
    wanted = [x for x in lines if "rror" in x or "heck failed" in x] or lines or [""]
    return wanted[0][:200]


def child(job, pipe):
    log = os.open(os.devnull, os.O_WRONLY)
    os.dup2(log, 1), os.dup2(log, 2)
    out = {"stage": None, "exception": None, "message": None, "line": None}
    try:
        signal.alarm(SECONDS)
        judge(job)
    except Stage as stage:
        error = stage.error
        out = {"stage": stage.name, "exception": type(error).__name__, "message": first_line(error), "line": raised_at(error, job["path"])}
    except BaseException as error:
        out = {"stage": "oracle", "exception": type(error).__name__, "message": first_line(error), "line": None}
    os.write(pipe, json.dumps(out).encode())
    os._exit(0)


def run(job):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(job, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as f:
        text = f.read()
    _, status = os.waitpid(pid, 0)
    if text:
        return json.loads(text)
    return {"stage": "process", "exception": "signal" if os.WIFSIGNALED(status) else "exit", "message": f"the compiler died ({status})", "line": None}


def main():
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tilelang
    import tilelang.engine.lower
    import tilelang.jit.kernel  # noqa: F401
    import torch  # noqa: F401

    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps({"ready": True}), file=out)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=out)


if __name__ == "__main__":
    main()
