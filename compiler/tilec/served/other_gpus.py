"""``tilelang.rocm.target``: this compiler is for NVIDIA's GPUs and the CPU."""


def check_hip_availability() -> bool:
    return False


__all__ = ["check_hip_availability"]
