"""The Python around kernels, run symbolically: values, calls, instances, tile programs. May import: source, ir, language."""
from . import evaluator  # the first: its parts need one another in its order
from .definitions import KernelDefinition, KernelInstance
from .instantiate import instantiate
from .module import ModuleAnalysis, analyse
from .problem import ApiCall, ApiUse, Problem

__all__ = ["ApiCall", "ApiUse", "KernelDefinition", "KernelInstance", "ModuleAnalysis", "Problem", "analyse", "evaluator", "instantiate"]
