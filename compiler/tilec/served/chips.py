"""``tilelang.carver.arch``: facts about the GPU."""
from __future__ import annotations

from typing import Any

from ..jit.targets import resolve


class driver:
    """Facts of the current device."""

    @staticmethod
    def get_num_sms(device_id: int = 0) -> int:
        """Streaming multiprocessors of this machine's GPU."""
        import torch

        return torch.cuda.get_device_properties(device_id).multi_processor_count


class CUDA:
    """A chip by target: ``compute_max_core``, ``sm_version``, ``smem_cap``."""

    def __init__(self, target: Any = "cuda"):
        chip = resolve(target)
        self.target = chip
        self.sm_version = chip.sm
        self.compute_max_core = chip.sm_count
        self.smem_cap = chip.shared_bytes
        self.warp_size = 32
        self.platform = "CUDA"


class CDNA:
    """AMD chips are not supported by this compiler."""

    def __init__(self, target: Any = "hip"):
        raise NotImplementedError("this compiler has no AMD targets")


def is_cuda_arch(arch: Any) -> bool:
    return isinstance(arch, CUDA)


def is_hopper_arch(arch: Any) -> bool:
    return isinstance(arch, CUDA) and arch.sm_version == 90
