"""Vectorised loops: one wide access for the elements of the loop where memory allows it."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.affine import linear
from ...ir.buffer import VAR
from ...ir.build import const, const_int
from ...ir.expr import Binary, Call, Cast, Expr, Load, Select, Unary, Var, children, walk
from ...ir.stmt import For, Store

_WIDE = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}


def is_vector_loop(s: For) -> bool:
    """A vectorised loop over one store that can be printed as wide accesses."""
    return (s.kind == "vectorized" and const_int(s.start) == 0 and s.step == 1 and len(s.body) == 1 and isinstance(s.body[0], Store)
            and const_int(s.extent) is not None and int(const_int(s.extent) or 0) > 1)


def print_vector(out: Any, s: For) -> None:
    """``out`` is the statement printer."""
    store = s.body[0]
    assert isinstance(store, Store)
    count = const_int(s.extent) or 1
    if _is_plain_copy(out, store, s.var, count):
        return
    loads = _contiguous_loads(out, store.value, s.var, count)
    target_wide = _wide(store.buffer, store.indices, s.var, count, out)
    out.line("{", s.span)
    out.depth += 1
    saved = dict(out.expr.substitute)
    for number, load in enumerate(loads):
        name = f"in{number}"
        element = out.expr.type(load.buffer.dtype)
        out.line(f"alignas(16) {element} {name}[{count}];", store.span)
        _wide_copy(out, name, f"&{_first(out, load.buffer, load.indices, s.var, count)}", load.buffer.dtype, count, store, into_local=True)
        out.expr.substitute[load] = f"{name}[{out.expr.name(s.var)}]"
    variable = out.expr.name(s.var)
    if target_wide:
        out.line(f"alignas(16) {out.expr.type(store.buffer.dtype)} out_v[{count}];", store.span)
    value = out.expr.text(store.value)
    assign = f"out_v[{variable}] = {value}" if target_wide else out.expr.assignment(store.buffer, store.indices, value)
    out.line("#pragma unroll", store.span)
    out.line(f"for (int {variable} = 0; {variable} < {count}; ++{variable}) {assign};", store.span)
    if target_wide:
        _wide_copy(out, f"&{_first(out, store.buffer, store.indices, s.var, count)}", "out_v", store.buffer.dtype, count, store, into_local=False)
    out.expr.substitute = saved
    out.depth -= 1
    out.line("}", s.span)


def _bytes(dtype: str, count: int) -> int:
    return dtypes.bits(dtype) * count // 8


def _is_memory(buffer: Any) -> bool:
    """Global and shared memory profit from wide accesses; registers are left to the compiler."""
    return buffer.scope == "global" or buffer.attrs.get("byte_offset") is not None or buffer.scope in ("shared", "shared.dyn")


def _wide(buffer: Any, indices: tuple[Expr, ...], var: Var, count: int, out: Any) -> bool:
    if dtypes.bits(buffer.dtype) < 8:
        return False
    size = _bytes(buffer.dtype, count)
    return _is_memory(buffer) and size >= 4 and (size in _WIDE or size % 16 == 0) and _steps_by_one(out.expr.offset(buffer, indices), var)


def _steps_by_one(offset: Expr, var: Var) -> bool:
    """The loop variable occurs once, with factor 1."""
    terms, _ = linear(_without_casts(offset))
    factors = [f for t, f in terms if t is var]
    return factors == [1] and not any(part is var for t, _ in terms if t is not var for part in walk(t))


def _without_casts(e: Expr) -> Expr:
    if isinstance(e, Cast):
        return _without_casts(e.a)
    if isinstance(e, Binary) and e.op in ("add", "sub", "mul"):
        return Binary(e.dtype, e.span, e.op, _without_casts(e.a), _without_casts(e.b))
    return e


def _first(out: Any, buffer: Any, indices: tuple[Expr, ...], var: Var, count: int) -> str:
    """The element at loop index 0, where a wide access starts."""
    out.expr.needs_alignment(buffer, _bytes(buffer.dtype, count))
    return out.expr.element(buffer, tuple(replace_var(i, var, const(0, var.dtype)) for i in indices))


def replace_var(e: Expr, var: Var, value: Expr) -> Expr:
    if e is var:
        return value
    if not any(part is var for part in walk(e)):
        return e
    from ...ir.build import binary, cast, select, unary

    if isinstance(e, Binary):
        return binary(e.op, replace_var(e.a, var, value), replace_var(e.b, var, value), e.span)
    if isinstance(e, Unary):
        return unary(e.op, replace_var(e.a, var, value), e.span)
    if isinstance(e, Cast):
        return cast(replace_var(e.a, var, value), e.dtype, e.span)
    if isinstance(e, Select):
        return select(replace_var(e.cond, var, value), replace_var(e.then, var, value), replace_var(e.other, var, value), e.span)
    if isinstance(e, Load):
        return Load(e.dtype, e.span, e.buffer, tuple(replace_var(i, var, value) for i in e.indices))
    if isinstance(e, Call):
        return Call(e.dtype, e.span, e.op, tuple(replace_var(a, var, value) if isinstance(a, Expr) else a for a in e.args), e.attrs)
    return e


def _contiguous_loads(out: Any, value: Expr, var: Var, count: int) -> list[Load]:
    """Loads from memory that run along with the loop; those under a condition stay where they are."""
    found: list[Load] = []
    stack = [value]
    while stack:
        e = stack.pop()
        if isinstance(e, Select):
            stack.append(e.cond)
            continue
        if isinstance(e, Load) and e.buffer.scope != VAR and _wide(e.buffer, e.indices, var, count, out):
            found.append(e)
            continue
        stack.extend(children(e))
    return found


def _is_plain_copy(out: Any, store: Store, var: Var, count: int) -> bool:
    value = store.value
    if not isinstance(value, Load) or value.buffer.dtype != store.buffer.dtype or _bytes(store.buffer.dtype, count) not in _WIDE:
        return False
    if not (_wide(store.buffer, store.indices, var, count, out) and _wide(value.buffer, value.indices, var, count, out)):
        return False
    wide = _WIDE[_bytes(store.buffer.dtype, count)]
    target, source = _first(out, store.buffer, store.indices, var, count), _first(out, value.buffer, value.indices, var, count)
    out.line(f"*reinterpret_cast<{wide}*>(&{target}) = *reinterpret_cast<const {wide}*>(&{source});", store.span)
    return True


def _wide_copy(out: Any, target: str, source: str, dtype: str, count: int, store: Store, into_local: bool) -> None:
    size = _bytes(dtype, count)
    wide = _WIDE.get(size, "uint4")
    for piece in range(size // (size if size in _WIDE else 16)):
        out.line(f"reinterpret_cast<{wide}*>({target})[{piece}] = reinterpret_cast<const {wide}*>({source})[{piece}];", store.span)


