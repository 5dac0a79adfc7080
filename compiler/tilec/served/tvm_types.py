"""What scripts take of ``tvm`` around kernels: DataType. Everything else of TVM's is not here."""
from ..jit.values import dtype as DataType

__all__ = ["DataType"]
