"""What scripts take of ``tvm`` around kernels: DataType and an error; hook.py lists its modules that are served. Everything else of TVM's is not here."""
from ..jit.values import dtype as DataType
from .tvm_errors import TVMError

__all__ = ["DataType", "TVMError"]
