"""Kinds of arguments: what form of value a parameter takes.

A *form* is what an argument is as far as its call site tells: ``buffer``, ``element``, ``int``, ``str`` ... (``FORMS``). A *kind* is
the set of forms a parameter takes, with the texts it takes where only some are meant. A form that is not known fits every kind.
"""
from __future__ import annotations

import ast
from functools import lru_cache

# form -> how it is called in a message
FORMS = {
    "buffer": "a buffer", "var": "a T.alloc_var variable", "barrier": "a barrier", "region": "a slice of a buffer",
    "element": "an element of a buffer", "scalar": "a value", "pointer": "a pointer", "let": "a value", "int": "an integer",
    "float": "a float", "bool": "a truth value", "str": "a string", "none": "None", "sequence": "a list or tuple", "dict": "a dict",
    "dtype": "a data type", "function": "a function", "layout": "a layout", "frame": "a loop or launch", "tensor": "a tensor",
    "set": "a set",
}


class Kind:
    """``text``: what the parameter takes, in words. ``choices``: the strings it takes, None for any."""

    __slots__ = ("text", "forms", "choices")

    def __init__(self, text: str, forms: str, choices: tuple[str, ...] | None = None):
        self.text = text
        self.forms = frozenset(forms.split())
        self.choices = choices

    def takes(self, form: str | None, text: str | None) -> bool:
        if form is None:
            return True
        if form == "str" and self.choices is not None and "str" in self.forms:
            return text is None or text in self.choices
        return form in self.forms

    def __or__(self, other: Kind) -> Kind:
        choices: tuple[str, ...] | None = None
        if self.choices is not None or other.choices is not None:
            open_ended = any("str" in k.forms and k.choices is None for k in (self, other))
            choices = None if open_ended else (*(self.choices or ()), *(other.choices or ()))
        text = self.text if other.text == NONE.text else other.text if self.text == NONE.text else f"{self.text} or {other.text}"
        return Kind(text, " ".join(self.forms | other.forms), choices)


_VALUE = "int float bool scalar element let var region"
NONE = Kind("None", "none")
TILE = Kind("a buffer or a part of one", "buffer var barrier region element let tensor")
ELEMENT = Kind("an element of a buffer", "element region let barrier var")
SCALAR = Kind("a value", _VALUE + " pointer")
INTEGER = Kind("an integer", "int bool scalar element let var none")  # None: a default that configurations replace
CONSTANT = Kind("an integer constant", "int bool")
FLOAT = Kind("a number", _VALUE)
FLAG = Kind("True or False", "bool int scalar element let none")  # None is as good as False
STRING = Kind("a string", "str dtype none")
DTYPE = Kind("a data type", "str dtype")
SHAPE = Kind("a shape", "sequence int scalar let element var")
SEQUENCE = Kind("a list or tuple", "sequence")
DICT = Kind("a dict", "dict")
FUNCTION = Kind("a function", "function")
POLICY = Kind("a T.GemmWarpPolicy", "int none")
BARRIER = Kind("a barrier", "barrier buffer element let")
POINTER = Kind("a pointer", "pointer scalar let element buffer var barrier region int bool none")
TARGET = Kind("a target", "str dict none")
VARIABLE = Kind("a variable", "scalar let pointer element var int bool")
LAYOUT = Kind("a layout", "layout function none")
OBJECT = Kind("an object of TileLang's", "none")  # what is one has a form that is not known
ANY: Kind | None = None


def choice(*texts: str) -> Kind:
    return Kind(" or ".join(filter(None, (", ".join(map(repr, texts[:-1])), repr(texts[-1])))), "str", texts)


_ALIASES = {
    "ReduceKind": choice("sum", "abssum", "max", "absmax", "min", "bitand", "bitor", "bitxor"),
    "ReducerOp": choice("sum", "max", "min", "bitand", "bitor", "bitxor"),
    "DescKind": choice("wgmma", "tcgen05_smem", "tcgen05_instr"),
    "ExecutionBackend": choice("auto", "dlpack", "ctypes", "tvm_ffi", "cython", "nvrtc", "torch", "cutedsl"),
}
_NAMED: dict[str, Kind] = {
    "PrimExpr": SCALAR, "PyPrimExpr": SCALAR, "PrimExprWithOp": SCALAR, "int": INTEGER, "Integral": INTEGER, "IntImm": INTEGER, "float": FLOAT,
    "bool": FLAG, "str": STRING, "None": NONE, "DType": DTYPE, "_DType": DTYPE, "AnyDType": DTYPE, "DataType": DTYPE, "BufferLikeType": TILE,
    "Buffer": TILE, "BufferRegion": TILE, "BufferLoad": ELEMENT, "Tensor": TILE, "ShapeType": SHAPE, "dict": DICT, "Dict": DICT, "list": SEQUENCE,
    "List": SEQUENCE, "tuple": SEQUENCE, "Tuple": SEQUENCE, "Callable": FUNCTION, "GemmWarpPolicy": POLICY, "BarrierType": BARRIER,
    "TargetLike": TARGET, "Target": TARGET, "Call": SCALAR, "Var": VARIABLE, "Op": STRING, "PathLike": STRING, **dict.fromkeys(
        ("Range", "DataProducer", "CommReducer", "Type", "SwizzleMode", "WSSyncKind", "TensorSupplyType", "BaseKernelAdapter", "BackendContext",
         "IterVar", "TransformKind", "Signature", "IRGenerator", "PrimFunc", "IRModule"), OBJECT), **_ALIASES,
}


@lru_cache(maxsize=512)
def of_annotation(text: str) -> Kind | None:
    """The kind an annotation describes; None if it may be anything, or says nothing that can be told from a call."""
    if not text:
        return None
    try:
        return _of_node(ast.parse(text, mode="eval").body)
    except SyntaxError:
        return None


def _of_node(node: ast.expr) -> Kind | None:
    if isinstance(node, ast.Constant):
        return NONE if node.value is None else _of_string(node.value)
    if isinstance(node, ast.Name):
        return _NAMED.get(node.id)
    if isinstance(node, ast.Attribute):
        return _NAMED.get(node.attr)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union([node.left, node.right])
    if isinstance(node, ast.Subscript):
        return _of_subscript(node)
    return None


def _of_string(value: object) -> Kind | None:
    """An annotation in quotes."""
    return of_annotation(value) if isinstance(value, str) else None


def _of_subscript(node: ast.Subscript) -> Kind | None:
    head = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if head == "Literal":
        texts = [e.value for e in inner if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        return choice(*texts) if len(texts) == len(inner) else None
    if head == "Optional":
        return _union([*inner, ast.Constant(None)])
    if head == "Union":
        return _union(inner)
    if head in ("Iterable", "Sequence"):
        return SEQUENCE
    return _NAMED.get(head)


def _union(parts: list[ast.expr]) -> Kind | None:
    found: Kind | None = None
    for part in parts:
        kind = _of_node(part)
        if kind is None:
            return None
        found = kind if found is None else found | kind
    return found


def describe(form: str, text: str | None) -> str:
    """A value as a message names it: ``the string 'fast'``, ``the integer 3``, ``a buffer``."""
    if form in ("str", "int", "float", "bool") and text is not None:
        word = {"str": "the string", "int": "the integer", "float": "the float", "bool": "the truth value"}[form]
        return f"{word} {text!r}" if form == "str" else f"{word} {text}"
    return FORMS.get(form, form)
