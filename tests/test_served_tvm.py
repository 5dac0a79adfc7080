"""What scripts take of ``tvm`` around kernels, where TVM is not installed."""
from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "tvm" else real(name, package)
from tilec.served.hook import install
install()
import tilelang
import tilelang.language as T
import tvm
from tilelang import tvm as same
from tvm import tirx
from tvm.target import Target
from tilec.transform.configs import FAST_MATH, is_set

assert same is tvm

@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    T.annotate_pass_configs({tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = T.exp(A[i])

assert main.attrs["tilelang_pass_configs"] and main.buffer_map[main.params[0]].shape == [8]
with tvm.transform.PassContext(config={"tl.disable_tma_lower": True}), Target({"kind": "cuda", "arch": "sm_80"}) as target:
    assert Target.current() is target and target.kind.name == "cuda" and target.arch == "sm_80"
    lowered = tilelang.lower(main)
assert Target.current() is None
assert lowered.kernel.target.name == "sm_80" and lowered.kernel.pass_configs == {"tl.disable_tma_lower": True}
assert is_set(lowered.kernel.program, FAST_MATH) and "__global__" in lowered.kernel_source, lowered.kernel_source

value = tirx.Var("value", "float16")
made = T.__exp(value)
assert isinstance(made, tirx.Call) and made.dtype == "float16" and isinstance(value, tirx.Var)
try:
    T.__exp(tirx.Var("n", "int32"))
    raise SystemExit("accepted")
except tvm.error.InternalError as error:
    assert "int32" in str(error)
try:
    tvm.IRModule.from_expr(main)
    raise SystemExit("served")
except NotImplementedError:
    pass
print("served")
"""


def test_targets_contexts_errors_and_expressions(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True)
    assert done.stdout.strip() == "served", done.stderr
