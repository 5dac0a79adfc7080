"""The project's reference interpreter as a judge: does the mutant compute what the seed's reference function computes?"""

from __future__ import annotations

import warnings

import torch
from tilec.evaluate import analyse, instantiate
from tilec.runtime.compare import compare, tolerance
from tilec.runtime.inputs import make_arguments, roles_of
from tilec.runtime.oracle import interpret_arguments
from tilec.runtime.reference import call_reference, find_functions, user_inputs
from tilec.runtime.usermodule import execute_file, install_inert_tilelang
from tilec.source.file import SourceFile

SECONDS = 30.0


def judge(text: str) -> tuple[str, str]:
    """``right``, ``wrong`` (a fault or a wrong result, in words) or ``undecided`` (why)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = _judge(text)
    except Undecided as why:
        return "undecided", str(why)
    except Exception as error:  # what it does not model, or an input the mutant cannot take: nothing is proven
        return "undecided", f"{type(error).__name__}: {error}"[:200]
    return ("wrong", wrong) if wrong else ("right", "")


class Undecided(Exception):
    pass


def _judge(text: str) -> str | None:
    install_inert_tilelang()
    source = SourceFile("mutant.py", text)
    analysis = analyse(source)
    kernel = analysis.kernels[0]
    instance = kernel.instances[0]
    program = instantiate(analysis, kernel, instance)
    if program is None or program.attrs.get("incomplete"):
        raise Undecided("no tile program")
    functions = find_functions(source, [kernel.qualname])
    if not functions.reference:
        raise Undecided("no reference")
    roles = roles_of(program)
    torch.manual_seed(0)
    values = make_arguments(program, roles, {}, 0)
    module = execute_file("mutant.py", text)
    arguments = dict(instance.kwargs)
    if functions.inputs:
        values = user_inputs(module, functions.inputs, program, roles, arguments, values)
    expected = call_reference(module, functions.reference, program, roles, arguments, values)
    given = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
    result = interpret_arguments(program, given, SECONDS)
    if result.faults:
        return f"fault: {result.faults[0].message}"
    for output, wanted in zip(roles.outputs, expected):
        actual = given[program.params.index(output)]
        allowed = tolerance(program, output, 4096, True)
        found = compare(output, actual, wanted, allowed, None)
        if found.mismatch is not None:
            return f"wrong result: {output.name} differs by {found.max_abs:.3g}"
    return None
