"""Whether the arguments that the command line or a comment gives a kernel fit its parameters."""

from __future__ import annotations

import ast
from typing import Any


def misfit(kernel: Any, instance: Any, program: Any = None) -> list[str]:
    """What is wrong with the arguments that the command line or a comment gives a kernel. ``program``: the kernel at that instance."""
    wrong = _arguments(kernel, instance) or _names(instance)
    if wrong or program is None:
        return wrong
    found = [*program.attrs.get("size_conflicts", ()), *program.attrs.get("misfits", ())]
    return [f"{instance.text!r}: {found[0]}"] if found else []


def _arguments(kernel: Any, instance: Any) -> list[str]:
    spec, names = kernel.node.args, [n for n in kernel.parameters if n != "self"]
    if kernel.kind == "eager":
        names += _constants(kernel.node)
    strangers = [] if spec.kwarg is not None else [k for k in instance.kwargs if k not in names]
    if strangers:
        import difflib

        near = difflib.get_close_matches(strangers[0], names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}" if names else "it has none"
        return [f"{instance.text!r}: {kernel.name} has no parameter {strangers[0]}; {hint}"]
    if kernel.kind == "eager":
        return _numbers_for_tensors(kernel, instance)
    if "self" in kernel.parameters:
        return []
    from tilec.evaluate.functions import bind_arguments

    _, error = bind_arguments(instance.function, instance.args, instance.kwargs)
    return [f"{instance.text!r}: {error.replace('()', '', 1)}"] if error else []


def _names(instance: Any) -> list[str]:
    """Names that the file does not have: their values would be unknown, and what depends on them unchecked."""
    import builtins

    from tilec.evaluate.names import suggestion
    from tilec.evaluate.values import MISSING

    scope = instance.function.scope.module()
    try:
        nodes = list(ast.walk(ast.parse(instance.text.strip(), mode="eval")))
    except SyntaxError:  # it was not the user who wrote it
        return []
    bound = {"tensor", *(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)), *(n.arg for n in nodes if isinstance(n, ast.arg))}
    used = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    strange = [n for n in used if n not in bound and not hasattr(builtins, n) and scope.lookup(n) is MISSING]
    if not strange or scope.is_open():
        return []
    return [f"{instance.text!r}: the file has no name {strange[0]}{suggestion(strange[0], scope)}"]


def _constants(function: ast.AST) -> list[str]:
    """The sizes of an eager kernel: ``M, N = T.const("M, N")``."""
    found: list[str] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute) and node.value.func.attr == "const":
            found += [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            found += [w for a in node.value.args if isinstance(a, ast.Constant) and isinstance(a.value, str) for w in a.value.replace(",", " ").split()]
    return list(dict.fromkeys(found))


def _numbers_for_tensors(kernel: Any, instance: Any) -> list[str]:
    """Tensors of an eager kernel for which there is a number or text."""
    given = {**dict(zip(kernel.parameters, instance.args)), **instance.kwargs}
    annotations = {a.arg: a.annotation for a in (*kernel.node.args.args, *kernel.node.args.kwonlyargs) if a.annotation is not None}
    annotations |= {n.target.id: n.annotation for n in kernel.node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    tensors = [n for n, a in annotations.items() if n in given and "Tensor" in ast.unparse(a)]
    wrong = next((n for n in tensors if isinstance(given[n], (int, float, str))), None)
    if wrong is None:
        return []
    return [f"{instance.text!r}: {wrong} of {kernel.name} is a tensor; write {wrong}=tensor((1024, 1024), \"float16\"), with its shape and data type"]
