"""Which statements of host code can matter for the instances of kernels: reference functions, data and printing need not run."""
from .slicing import Slicer

__all__ = ["Slicer"]
