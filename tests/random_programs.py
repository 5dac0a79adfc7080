"""Valid tile programs at random, and what each computes: by the interpreter, the CPU target and the GPU. Also a command:

    python tests/random_programs.py [--count 200] [--seed 0] [--target cpu|cuda|text] [--jobs N] [--show SEED]

Values are small whole numbers and every step keeps them small, so that all ways of computing give the same bits.
"""
from __future__ import annotations

import argparse
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from emit_support import prim
from tilec.ir.buffer import Buffer
from tilec.ir.build import const_int
from tilec.pipeline import compile_program, outputs_of
from tilec.runtime.oracle import interpret_arguments
from tilec.target.chips import find

DTYPES = ("float32", "float16", "int32", "bfloat16", "int8")


@dataclass
class Tile:
    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str  # "shared" or "fragment"


@dataclass
class Generator:
    """Builds one program line by line; ``tiles`` are those that hold values."""

    seed: int
    lines: list[str] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    depth: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        pick = self.random.choice
        self.threads = pick((32, 64, 128, 256))
        self.rows, self.columns = pick((8, 16, 32, 64)), pick((8, 16, 32, 64))
        self.height = self.rows * pick((1, 2)) - pick((0, 0, 3))
        self.width = self.columns * pick((1, 2)) - pick((0, 0, 5))
        self.inputs = [(f"A{i}", pick(DTYPES)) for i in range(pick((1, 2, 3)))]
        self.output = pick(DTYPES)

    # -- the program -----------------------------------------------------------------------------------------------------------
    def program(self) -> tuple[str, str]:
        shape = f"({self.height}, {self.width})"
        parameters = [f"{name}: T.Tensor({shape}, '{dtype}')" for name, dtype in self.inputs]
        parameters += [f"O: T.Tensor({shape}, '{self.output}')", f"P: T.Tensor(({self.height},), 'float32')"]
        self.line(f"with T.Kernel(T.ceildiv({self.width}, {self.columns}), T.ceildiv({self.height}, {self.rows}), threads={self.threads}) as (bx, by):")
        self.depth = 1
        self.load()
        for _ in range(self.random.randint(2, 7)):
            self.step()
        self.finish()
        return ", ".join(parameters), "\n    ".join(["", *self.lines, ""])

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def make(self, shape: tuple[int, ...], dtype: str, scope: str | None = None) -> Tile:
        self.count += 1
        tile = Tile(f"t{self.count}", shape, dtype, scope or self.random.choice(("shared", "fragment", "fragment")))
        at, self.depth = self.depth, 1  # declared at the top of the kernel, wherever it is used first
        self.lines.insert(1, "    " + f"{tile.name} = T.alloc_{tile.scope}({shape}, '{dtype}')")
        self.depth = at
        return tile

    def tile(self, shape: tuple[int, ...] | None = None, scope: str | None = None) -> Tile | None:
        fitting = [t for t in self.tiles if (shape is None or t.shape == shape) and (scope is None or t.scope == scope)]
        return self.random.choice(fitting) if fitting else None

    @property
    def whole(self) -> tuple[int, int]:
        return self.rows, self.columns

    def step(self) -> None:
        self.random.choice((self.load, self.move, self.elementwise, self.elementwise, self.reduce, self.broadcast, self.scan, self.transposed, self.multiply,
                            self.loop, self.branch, self.shifted))()

    # -- steps -----------------------------------------------------------------------------------------------------------------
    def load(self) -> None:
        name, dtype = self.random.choice(self.inputs)
        tile = self.make(self.whole, self.random.choice((dtype, dtype, self.random.choice(DTYPES))))
        self.line(f"T.copy({name}[by * {self.rows}, bx * {self.columns}], {tile.name})")
        self.tiles.append(tile)

    def move(self) -> None:
        source = self.tile()
        assert source is not None
        target = self.make(source.shape, self.random.choice(DTYPES))
        self.line(f"T.copy({source.name}, {target.name})")
        self.tiles.append(target)

    def loop_over(self, shape: tuple[int, ...]) -> str:
        names = "ijk"[:len(shape)]
        self.line(f"for {', '.join(names)} in T.Parallel({', '.join(map(str, shape))}):")
        return ", ".join(names)

    def small(self, text: str, dtype: str) -> str:
        """Back between -6 and 6 and into the type."""
        return f"T.cast(T.max(T.min(T.cast({text}, 'float32'), 6.0), -6.0), '{dtype}')"

    def elementwise(self) -> None:
        a = self.tile(self.whole)
        b = self.tile(self.whole)
        if a is None or b is None:
            return
        target = a if self.random.random() < 0.3 else self.make(self.whole, self.random.choice(DTYPES))
        at = self.loop_over(self.whole)
        x, y = f"T.cast({a.name}[{at}], 'float32')", f"T.cast({b.name}[{at}], 'float32')"
        value = self.random.choice((f"{x} + {y}", f"{x} - {y} * 2.0", f"T.max({x}, {y})", f"{x} * {y}", f"T.if_then_else({x} > {y}, {x}, -{y})",
                                    f"{x} + T.cast((i * 3 + j) % 5, 'float32')", f"T.abs({x}) - {y}"))
        self.line(f"    {target.name}[{at}] = {self.small(value, target.dtype)}")
        if target not in self.tiles:
            self.tiles.append(target)

    def reduce(self) -> None:
        source = self.tile(self.whole)
        if source is None:
            return
        if source.dtype not in ("float32", "int32"):
            wide = self.make(self.whole, "float32")
            self.line(f"T.copy({source.name}, {wide.name})")
            source = wide
        dim = self.random.choice((0, 1))
        target = self.make((self.whole[1 - dim],), source.dtype, "fragment")
        kind = self.random.choice(("sum", "max", "min", "abssum", "absmax"))
        self.line(f"T.reduce_{kind}({source.name}, {target.name}, dim={dim})")
        self.tiles.append(target)

    def broadcast(self) -> None:
        vector = next((t for t in reversed(self.tiles) if len(t.shape) == 1), None)
        tile = self.tile(self.whole)
        if vector is None or tile is None:
            return
        index = "i" if vector.shape[0] == self.rows else "j"
        target = self.make(self.whole, self.random.choice(DTYPES))
        at = self.loop_over(self.whole)
        self.line(f"    {target.name}[{at}] = {self.small(f'{tile.name}[{at}] - {vector.name}[{index}] % 4', target.dtype) if self.both(tile, vector) else self.small(f'{tile.name}[{at}]', target.dtype)}")
        self.tiles.append(target)

    def both(self, a: Tile, b: Tile) -> bool:
        return a.dtype == b.dtype

    def scan(self) -> None:
        source = self.tile(self.whole)
        if source is None:
            return
        wide = self.make(self.whole, "float32", self.random.choice(("shared", "fragment")))
        self.line(f"T.copy({source.name}, {wide.name})")
        self.line(f"T.cumsum({wide.name}, dim={self.random.choice((0, 1))}{self.random.choice(('', ', reverse=True'))})")
        target = self.make(self.whole, self.random.choice(DTYPES))
        at = self.loop_over(self.whole)
        self.line(f"    {target.name}[{at}] = {self.small(f'{wide.name}[{at}]', target.dtype)}")
        self.tiles.append(target)

    def transposed(self) -> None:
        source = self.tile(self.whole, "shared")
        if source is None:
            return
        target = self.make((self.columns, self.rows), source.dtype)
        if self.random.random() < 0.5:
            self.line(f"T.transpose({source.name}, {target.name})")
        else:
            at = self.loop_over(target.shape)
            self.line(f"    {target.name}[{at}] = {source.name}[j, i]")
        self.tiles.append(target)

    def multiply(self) -> None:
        """A product of the tile with itself transposed, where the tile fits matrix instructions."""
        source = self.tile(self.whole)
        if source is None or self.rows < 16 or self.columns < 16 or self.rows % 16:
            return
        warps = self.threads // 32
        if (self.rows // 16) * (self.rows // 8) < warps or (self.rows // 16) * (self.rows // 8) % warps:
            return
        a, b = self.make(self.whole, "float16", "shared"), self.make(self.whole, "float16", "shared")
        c, target = self.make((self.rows, self.rows), "float32", "fragment"), self.make((self.rows, self.rows), self.random.choice(DTYPES), "shared")
        self.line(f"T.copy({source.name}, {a.name})")
        self.line(f"T.copy({a.name}, {b.name})")
        self.line(f"T.clear({c.name})")
        self.line(f"T.gemm({a.name}, {b.name}, {c.name}, transpose_B=True{self.random.choice(('', ', policy=T.GemmWarpPolicy.FullRow')) if warps * 16 <= self.rows else ''})")
        at = self.loop_over(c.shape)
        self.line(f"    {target.name}[{at}] = {self.small(f'{c.name}[{at}]', target.dtype)}")
        self.tiles.append(target)

    def loop(self) -> None:
        """Tiles along the first input's columns, added up."""
        name, dtype = self.random.choice(self.inputs)
        tile, total = self.make(self.whole, dtype, "shared"), self.make(self.whole, "float32", "fragment")
        count = -(-self.width // self.columns)
        self.line(f"T.clear({total.name})")
        self.line(f"for k{self.count} in {self.random.choice(('T.serial(', 'T.Pipelined('))}{count}{self.random.choice(('', '')) }):")
        if "Pipelined" in self.lines[-1]:
            self.lines[-1] = self.lines[-1].replace(f"{count})", f"{count}, num_stages={self.random.choice((1, 2, 3))})")
        variable = self.lines[-1].split()[1]
        self.depth += 1
        self.line(f"T.copy({name}[by * {self.rows}, {variable} * {self.columns}], {tile.name})")
        at = self.loop_over(self.whole)
        self.line(f"    {total.name}[{at}] = {total.name}[{at}] + T.cast({tile.name}[{at}], 'float32')")
        self.depth -= 1
        self.tiles.append(total)

    def branch(self) -> None:
        """One of two steps by the block's place."""
        target = self.tile(self.whole)
        other = self.tile(self.whole)
        if target is None or other is None or target is other or target.dtype != other.dtype:
            return
        self.line(f"if {self.random.choice(('bx % 2 == 0', 'by > 0', 'bx + by == 1'))}:")
        self.depth += 1
        self.line(f"T.copy({other.name}, {target.name})")
        self.depth -= 1
        if self.random.random() < 0.5:
            self.line("else:")
            self.depth += 1
            self.line(f"T.fill({target.name}, {self.random.choice((1, 2, -3))})")
            self.depth -= 1

    def shifted(self) -> None:
        """Neighbours in shared memory, with a guard at the border."""
        source = self.tile(self.whole, "shared")
        if source is None:
            return
        target = self.make(self.whole, source.dtype)
        step = self.random.choice((1, 3))
        at = self.loop_over(self.whole)
        self.line(f"    {target.name}[{at}] = T.if_then_else(j + {step} < {self.columns}, {source.name}[i, T.min(j + {step}, {self.columns - 1})], "
                  f"T.cast(0, '{source.dtype}'))")
        self.tiles.append(target)

    def finish(self) -> None:
        tile = self.tile(self.whole)
        assert tile is not None
        self.line(f"T.copy({tile.name}, O[by * {self.rows}, bx * {self.columns}])")
        vector = next((t for t in reversed(self.tiles) if t.shape == (self.rows,) and t.dtype == "float32"), None)
        if vector is None:
            return
        if self.random.random() < 0.5:
            self.line(f"for i in T.Parallel({self.rows}):")
            self.line(f"    if by * {self.rows} + i < {self.height}:")
            self.line(f"        T.atomic_add(P[by * {self.rows} + i], {vector.name}[i])")


# -- running -------------------------------------------------------------------------------------------------------------------
def arguments(program: Any, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    outputs = {p.name for p in program.params if p.name in ("O", "P")}
    made = []
    for p in program.params:
        assert isinstance(p, Buffer)
        shape = [const_int(e) or 0 for e in p.shape]
        values = torch.zeros(shape) if p.name in outputs else torch.randint(-4, 5, shape, generator=generator).float()
        made.append(values.to(getattr(torch, p.dtype)))
    return made


def built(seed: int) -> Any:
    signature, body = Generator(seed).program()
    return prim(signature, body)


def expected(program: Any, seed: int) -> list[torch.Tensor]:
    given = arguments(program, seed)
    result = interpret_arguments(program, given)
    assert not result.faults, result.faults
    return given


def on_cpu(program: Any, seed: int) -> list[torch.Tensor]:
    given = arguments(program, seed)
    compile_program(program, find("cpu")).host_callable()(*given)
    return given


def on_gpu(program: Any, seed: int) -> list[torch.Tensor]:
    from tilec.runtime import gpu

    artifact = compile_program(program, gpu.local_target())
    given = [a.cuda() for a in arguments(program, seed)]
    gpu.GpuKernel(artifact)(*given)
    torch.cuda.synchronize()
    return [a.cpu() for a in given]


def differences(program: Any, wanted: list[torch.Tensor], got: list[torch.Tensor]) -> list[str]:
    wrong = []
    for p, w, g in zip(program.params, wanted, got):
        if not torch.equal(w, g):
            places = (w != g).nonzero()
            wrong.append(f"{p.name}: {len(places)} of {w.numel()} elements differ, first {places[0].tolist()}: {w[tuple(places[0])]} and {g[tuple(places[0])]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="cpu", choices=("cpu", "cuda", "text"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", type=int)
    args = parser.parse_args()
    if args.show is not None:
        print(*Generator(args.show).program(), sep="\n")
        return 0
    seeds = range(args.seed, args.seed + args.count)
    with ThreadPoolExecutor(args.jobs) as pool:
        found = list(pool.map(lambda seed: outcome(seed, args.target), seeds))
    bad = [(seed, text) for seed, text in zip(seeds, found) if text]
    for seed, text in bad:
        print(f"seed {seed}: {text}")
    print(f"{args.count - len(bad)} of {args.count} programs agree on {args.target}; {len(outputs_of(built(args.seed)))} outputs each")
    return 1 if bad else 0


def outcome(seed: int, target: str) -> str:
    """What is wrong with a program, "" if nothing is."""
    try:
        program = built(seed)
        if target == "text":
            for chip in ("sm_80", "sm_90a"):
                compile_program(program, find(chip)).text("cuda")
            return ""
        wanted = expected(program, seed)
        return "; ".join(differences(program, wanted, (on_cpu if target == "cpu" else on_gpu)(program, seed)))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"


if __name__ == "__main__":
    sys.exit(main())
