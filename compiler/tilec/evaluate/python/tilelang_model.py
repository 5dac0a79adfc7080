"""Names of tilelang outside its language that host code computes with: arithmetic helpers and facts about the machine."""
from __future__ import annotations

from typing import Any

from ..evaluator import Evaluator
from ..instances import MAX_CONFIG_INSTANCES
from ..tile.registry import Bound, api
from ..tile.scalar import number
from ..tile.scopes import Transparent
from ..values import NUM_SMS, DType, Function, hardware, unknown


def _ceildiv(ev: Evaluator, b: Bound) -> Any:
    from ..tile.scalar import ceildiv

    return ceildiv(ev, b)


def _next_power_of_2(ev: Evaluator, b: Bound) -> Any:
    value = number(b["n"])
    if isinstance(value, int):
        return 1 << max(value - 1, 0).bit_length() if value > 0 else unknown("next_power_of_2")
    return unknown("next_power_of_2")


for _module in ("tilelang", "tilelang.math", "tilelang.utils"):
    api("cdiv", "lhs rhs", _module)(_ceildiv)
    api("ceildiv", "lhs rhs", _module)(_ceildiv)
    api("next_power_of_2", "n", _module)(_next_power_of_2)


def _fp8(name: str) -> Any:
    """NVIDIA's 8-bit floats; AMD's older chips have others."""
    return lambda ev, b: DType("float8_e5m2" if b["fp8_format"] == "e5m2" else "float8_e4m3fn")


for _module in ("tilelang.utils", "tilelang.language.fp8", "tilelang.language", "tilelang.utils.target"):
    for _name in ("determine_fp8_type", "determine_torch_fp8_type", "select_torch_fp8_e4m3_dtype"):
        api(_name, "fp8_format=", _module)(_fp8(_name))


def _num_sms(ev: Evaluator, b: Bound) -> Any:
    return NUM_SMS


for _module in ("tilelang.carver.arch.driver", "tilelang.carver.arch", "tilelang.language"):
    api("get_num_sms", "*rest", _module)(_num_sms)


def _tune(ev: Evaluator, b: Bound) -> Any:
    """``AutoTuner.from_kernel(kernel=..., configs=...)``: each configuration is an instance."""
    kernel, configs = b["kernel"], b["configs"]
    if isinstance(kernel, Function) and isinstance(configs, (list, tuple)) and ev.on_call is not None and ev.builder is None:
        for config in configs[:MAX_CONFIG_INSTANCES]:
            if isinstance(config, dict):
                ev.on_call(kernel, [], {k: v for k, v in config.items() if k != "pass_configs"}, b.span)
    return unknown("autotuner")


for _module in ("tilelang.autotuner.AutoTuner", "tilelang.autotuner.tuner.AutoTuner", "tilelang.AutoTuner"):
    api("from_kernel", "kernel configs", _module)(_tune)


for _name, _signature in (("range", "*args"), ("scope", "*args")):
    api(_name, _signature, "tilelang.tools.cuda.iket")(lambda ev, b: Transparent())
for _name in ("mark", "range_push", "range_pop", "enable", "disable"):
    api(_name, "*args", "tilelang.tools.cuda.iket")(lambda ev, b: None)


def _machine(ev: Evaluator, b: Bound) -> Any:
    return hardware()


def _other_vendor(ev: Evaluator, b: Bound) -> Any:
    """Whether the machine is one of a vendor whose chips are no targets here."""
    return False


for _module in ("tilelang.rocm.target", "tilelang.utils.target", "tilelang.backend.target", "tilelang.utils", "tilelang.testing", "tilelang.contrib.rocm"):
    for _name in ("check_hip_availability", "check_metal_availability", "target_is_hip", "target_is_rocm", "target_is_gfx950", "target_is_cdna",
                  "target_is_rdna", "target_is_gfx11", "target_is_gfx12", "_check_is_gfx950"):
        api(_name, "*rest", _module)(_other_vendor)


for _module, _names in {
    "tilelang.contrib.nvcc": ("get_target_compute_version", "get_cuda_version", "have_fp8", "have_pdl", "parse_compute_version", "have_bf16"),
    "tilelang.utils.target": ("determine_target", "check_cuda_availability", "target_is_hopper"),
    "tilelang.backend.target": ("determine_target",),
    "tilelang.carver.arch": ("CUDA", "CDNA", "auto_infer_current_arch"),
    "tilelang.testing": ("get_cuda_arch",),
}.items():
    for _name in _names:
        api(_name, "*rest", _module)(_machine)
