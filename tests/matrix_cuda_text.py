"""A plain CUDA printer for matrix thread programs, to run them on a real GPU without the rest of the compiler.

Elements narrower than 32 bits are moved as bits; only what matrix programs contain is printed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilec.ir import dtypes, stmt
from tilec.ir.buffer import Buffer
from tilec.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Var

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "/",
    "floormod": "%",
    "lt": "<",
    "eq": "==",
    "ne": "!=",
    "bitxor": "^",
    "bitand": "&",
    "bitor": "|",
}


def ctype(dtype: str) -> str:
    if dtype in ("float32", "float64"):
        return {"float32": "float", "float64": "double"}[dtype]
    unsigned = "" if dtype.startswith("int") or dtype == "bool" else "unsigned "
    return unsigned + {8: "char", 16: "short", 32: "int", 64: "long long"}[dtypes.bits(dtype)]


@dataclass
class Printer:
    names: dict[object, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def name(self, thing: Buffer | Var) -> str:
        return self.names.setdefault(thing, f"{thing.name}_{len(self.names)}")

    def expr(self, e: Expr) -> str:
        if isinstance(e, Const):
            return f"({ctype(e.dtype)}){e.value!r}".replace("True", "1").replace("False", "0")
        if isinstance(e, Var):
            return self.name(e)
        if isinstance(e, Load):
            return self.element(e.buffer, e.indices)
        if isinstance(e, Select):
            return f"({self.expr(e.cond)} ? {self.expr(e.then)} : {self.expr(e.other)})"
        if isinstance(e, Cast):
            return f"({ctype(e.dtype)})({self.expr(e.a)})"
        if isinstance(e, Binary):
            return f"({self.expr(e.a)} {_OPERATORS[e.op]} {self.expr(e.b)})"
        assert isinstance(e, Call), e
        if e.op == "address_of":
            return f"&{self.expr(e.args[0])}"
        self.functions[e.attrs["name"]] = e.attrs["source"]
        return f"{e.attrs['name']}({', '.join(self.expr(a) for a in e.args)})"

    def element(self, b: Buffer, indices: tuple[Expr, ...]) -> str:
        flat = "0"
        for extent, index in zip(b.static_shape(), indices):
            flat = f"({flat} * {extent} + {self.expr(index)})"
        return f"{self.name(b)}[{flat}]"

    def body(self, body: stmt.Body) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: stmt.Stmt) -> None:
        if isinstance(s, stmt.Alloc):
            self.lines.append(f"{ctype(s.buffer.dtype)} {self.name(s.buffer)}[{s.buffer.static_shape()[0]}];")
        elif isinstance(s, stmt.Let):
            self.lines.append(f"const {ctype(s.var.dtype)} {self.name(s.var)} = {self.expr(s.value)};")
        elif isinstance(s, stmt.Store):
            self.lines.append(f"{self.element(s.buffer, s.indices)} = {self.expr(s.value)};")
        elif isinstance(s, stmt.Evaluate):
            self.lines.append(self.expr(s.value) + ";")
        elif isinstance(s, stmt.If):
            assert not s.other
            self.block(f"if ({self.expr(s.cond)})", s.then)
        else:
            assert isinstance(s, stmt.For) and s.step == 1, s
            if s.kind == "unroll":
                self.lines.append("#pragma unroll")
            i = self.name(s.var)
            self.block(f"for (int {i} = 0; {i} < {self.expr(s.extent)}; ++{i})", s.body)

    def block(self, head: str, body: stmt.Body) -> None:
        self.lines.append(head + " {")
        self.body(body)
        self.lines.append("}")


def kernel(
    name: str, thread: Var, body: stmt.Body, shared: list[Buffer], registers: list[Buffer], printer: Printer
) -> str:
    """``name(shared contents..., registers...)``: registers are [threads, registers], read before and written after."""
    printer.lines = []
    parameters = [f"const unsigned char* in_{printer.name(b)}" for b in shared]
    parameters += [f"{ctype(b.dtype)}* io_{printer.name(b)}" for b in registers]
    start = [f"const int {printer.name(thread)} = threadIdx.x;"]
    for b in shared:
        start.append(f"__shared__ __align__(1024) unsigned char raw_{printer.name(b)}[{b.size_bytes()}];")
        start.append(f"{ctype(b.dtype)}* {printer.name(b)} = ({ctype(b.dtype)}*)raw_{printer.name(b)};")
        start.append(
            f"for (int i = threadIdx.x; i < {b.size_bytes()}; i += blockDim.x) raw_{printer.name(b)}[i] = "
            f"in_{printer.name(b)}[i];"
        )
    start.append("__syncthreads();")
    finish = []
    for b in registers:
        n, r = b.static_shape()[0], printer.name(b)
        start.append(
            f"{ctype(b.dtype)} {r}[{n}]; for (int i = 0; i < {n}; ++i) {r}[i] = io_{r}[threadIdx.x * {n} + i];"
        )
        finish.append(f"for (int i = 0; i < {n}; ++i) io_{r}[threadIdx.x * {n} + i] = {r}[i];")
    printer.body(body)
    text = "\n  ".join([*start, *printer.lines, *finish])
    launch_parameters = ", ".join(f"void* p{i}" for i in range(len(parameters)))
    arguments = ", ".join(f"({p.rsplit(' ', 1)[0]})p{i}" for i, p in enumerate(parameters))
    return (
        f"__global__ void {name}({', '.join(parameters)}) {{\n  {text}\n}}\n"
        f'extern "C" int launch_{name}(int threads, {launch_parameters}) {{\n  {name}<<<1, threads>>>({arguments});\n'
        "  return (int)cudaDeviceSynchronize();\n}\n"
    )
