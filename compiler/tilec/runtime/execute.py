"""Running a compiled kernel once, comparing its outputs, measuring it."""
from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

import torch

from ..build.launch import LaunchError
from ..build.nvcc import ToolkitError
from ..ir.buffer import Buffer
from ..records import dataclass
from ..source.file import SourceFile
from ..source.span import Span
from ..transform.errors import LoweringError
from . import timing
from .compare import Comparison, Mismatch, compare, output_tile, tolerance, writer_of
from .cost import flops, parameter_bytes
from .inputs import InputError, Roles, extents_of, make_arguments, roles_of
from .interpreter import Fault, InterpreterResult, Unsupported
from .interpreter.run import OutOfTime
from .oracle import interpret_arguments
from .reference import ReferenceFault, UserFunctions, call_reference, user_inputs
from .usermodule import UserModule, execute_file

AGAINST = ("auto", "interpreter", "reference", "torch", "tilelang", "none")
DIAGNOSIS_SECONDS = 20.0  # for the interpreter after a mismatch with a reference


class CannotRun(Exception):
    """The kernel could not be run or its result could not be judged; the message is one paragraph. ``fatal``: the process is unusable after it."""

    def __init__(self, message: str, fatal: bool = False):
        super().__init__(message)
        self.fatal = fatal


@dataclass(frozen=True)
class Options:
    against: str = "auto"
    sizes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    warmup: int = 5
    repeat: int = 50
    interpreter_seconds: float = 60.0
    time_reference: bool = False  # measure the reference function too
    oracle: Callable[[list[Any], list[int]], list[Any]] | None = None  # of ``against="tilelang"``: all arguments, which are outputs -> the outputs


@dataclass(frozen=True)
class UserCode:
    """The kernel's file, the functions found in it and the instance's arguments by name."""

    source: SourceFile
    functions: UserFunctions
    instance: Mapping[str, Any]


@dataclass
class RunResult:
    kernel: str
    instance: str
    target: str
    device: str
    ok: bool = False
    against: str | None = None
    max_abs_err: float | None = None
    max_rel_err: float | None = None
    rtol: float | None = None
    atol: float | None = None
    latency: timing.Latency | None = None
    tflops: float | None = None
    gbps: float | None = None
    smem_bytes: int | None = None
    registers: int | None = None
    error: str | None = None
    mean_abs_err: float | None = None
    roofline: float | None = None  # share of what the GPU could do
    occupancy: float | None = None  # share of a multiprocessor's threads
    against_ms: float | None = None  # the median of what it was compared with, where that was measured
    mismatch: Mismatch | None = None
    faults: list[Fault] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The JSON of ``tile-lsp run``: numbers that JSON cannot hold (infinite errors) become None."""
        names = ("kernel", "instance", "target", "device", "ok", "against", "max_abs_err", "max_rel_err", "rtol", "atol")
        data = {n: _finite(getattr(self, n)) for n in names}
        data["latency_ms"] = self.latency.to_json() if self.latency is not None else None
        data.update({n: _finite(getattr(self, n)) for n in ("tflops", "gbps", "smem_bytes", "registers", "error", "mean_abs_err", "roofline", "occupancy", "against_ms")})
        return data

    def details(self) -> dict[str, Any]:
        """What a terminal shows beside the JSON."""
        found = asdict(self.mismatch) if self.mismatch is not None else None
        if found is not None:
            found["writer"] = str(self.mismatch.writer) if self.mismatch and self.mismatch.writer else None
            found["actual"], found["expected"] = str(found["actual"]), str(found["expected"])
        return {"mismatch": found, "faults": [f"{f.span}: {f.message}" if f.span else f.message for f in self.faults]}


@contextlib.contextmanager
def _whole_sums() -> Iterator[None]:
    """Matrix products of a reference add up in 32 bits, whatever saves time."""
    settings = torch.backends.cuda.matmul
    names = [n for n in ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction") if hasattr(settings, n)]
    before = {n: getattr(settings, n) for n in names}
    try:
        for n in names:
            setattr(settings, n, False)
        yield
    finally:
        for n, value in before.items():
            setattr(settings, n, value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))) else value


def run(artifact: Any, options: Options, user: UserCode | None = None, report: Callable[[str], None] = lambda text: None) -> RunResult:
    """Raises CannotRun."""
    if options.against not in AGAINST:
        raise CannotRun(f"--against {options.against}: choose one of {', '.join(AGAINST)}")
    try:
        return _Run(artifact, options, user, report).execute()
    except (InputError, ReferenceFault, ToolkitError) as error:
        raise CannotRun(str(error)) from error
    except LaunchError as error:
        raise CannotRun(str(error), fatal=True) from error
    except LoweringError as error:
        raise CannotRun(f"{error.span.outermost()}: {error}" if error.span is not None else str(error)) from error
    except torch.OutOfMemoryError as error:
        raise CannotRun(f"the GPU's memory does not hold the tensors: {str(error).splitlines()[0]}") from error
    except MemoryError as error:
        raise CannotRun("this machine's memory does not hold the tensors; take a smaller instance") from error


class _Run:
    def __init__(self, artifact: Any, options: Options, user: UserCode | None, report: Callable[[str], None]):
        self.artifact, self.options, self.user, self.report = artifact, options, user, report
        self.program, self.target = artifact.program, artifact.target
        self.roles: Roles = roles_of(self.program)
        self.on_gpu = self.target.kind == "cuda"
        self.module: UserModule | None = None

    def execute(self) -> RunResult:
        if not self.roles.outputs:
            raise CannotRun(f"{self.program.name} writes no tensor, so there is nothing to compare")
        against = self._against()
        values = self._arguments(against)
        self.report("compiling")
        kernel = self._kernel()
        result = RunResult(self.program.name, self.program.instance, self.target.name, self._device())
        self._resources(result, kernel)
        self.report("running")
        actual = self._outputs(self._call(kernel, values))
        if against == "none":
            result.ok = True
        else:
            self.report(f"comparing with the {against}")
            self._judge(result, against, values, actual)
        self.report("measuring")
        result.latency = self._measure(kernel, values)
        if self.options.time_reference and against == "reference":
            result.against_ms = self._measure_reference(values)
        self._rates(result, values, kernel)
        return result

    # -- preparation -------------------------------------------------------------------------------------------------
    def _against(self) -> str:
        has = self.user is not None and bool(self.user.functions.reference)
        wanted = self.options.against
        if wanted == "none":
            return wanted
        if wanted == "tilelang":
            if self.options.oracle is None:
                raise CannotRun("there is no TileLang to compare with")
            return wanted
        if wanted in ("reference", "torch") and not has:
            raise CannotRun(f"there is no reference function for {self.program.name}: define `reference(<inputs>)` at the file's top level, or name one with "
                            "`# tile-lsp: reference=NAME`; --against interpreter compares with the tile interpreter")
        return "interpreter" if wanted == "interpreter" or not has else "reference"

    def _arguments(self, against: str) -> list[Any]:
        self.report("making inputs")
        made = make_arguments(self.program, self.roles, self.options.sizes, self.options.seed)
        user = self.user
        if user is None or not (user.functions.inputs or against == "reference"):
            return made
        torch.manual_seed(self.options.seed)
        self.module = execute_file(user.source.path, user.source.text)
        torch.manual_seed(self.options.seed)
        if user.functions.inputs:
            return user_inputs(self.module, user.functions.inputs, self.program, self.roles, user.instance, made)
        return made

    def _kernel(self) -> Callable[..., Any]:
        if not self.on_gpu:
            try:
                return self.artifact.host_callable()
            except ModuleNotFoundError as error:
                if (error.name or "").split(".")[0] not in ("tvm", "tvm_ffi"):
                    raise
                raise CannotRun("running on the CPU needs TVM, which is not installed here: pip install 'tilec[compile]'") from error
        from .gpu import GpuKernel, runs_here

        why = runs_here(self.target)
        if why:
            raise CannotRun(why)
        return GpuKernel(self.artifact)

    def _device(self) -> str:
        return torch.cuda.get_device_name() if self.on_gpu else _cpu_name()

    def _resources(self, result: RunResult, kernel: Any) -> None:
        if not self.on_gpu:
            return
        compiled = self.artifact.cubin().resources.values()
        result.registers = max((r.registers for r in compiled), default=None)
        static = max((r.shared_bytes for r in compiled), default=0)
        result.smem_bytes = static + max((k.shared_bytes for k in self.artifact.cuda().kernels), default=0)
        result.occupancy = kernel.occupancy()

    # -- running -------------------------------------------------------------------------------------------------------
    def _call(self, kernel: Callable[..., Any], values: list[Any]) -> list[Any]:
        arguments = self._fresh(values)
        self._launch(kernel, arguments)
        return arguments

    def _fresh(self, values: list[Any]) -> list[Any]:
        device = "cuda" if self.on_gpu else "cpu"
        return [v.to(device) if isinstance(v, torch.Tensor) and self.on_gpu else v.clone() if isinstance(v, torch.Tensor) else v for v in values]

    def _launch(self, kernel: Callable[..., Any], arguments: list[Any]) -> None:
        from ..emit.arguments import ArgumentError

        try:
            kernel(*arguments)
            if self.on_gpu:
                torch.cuda.synchronize()
        except ArgumentError as error:
            raise CannotRun(str(error)) from error
        except (LaunchError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # the host module's own checks, or a fault on the device
            text = next(iter(str(error).strip().splitlines()), type(error).__name__)
            where = f"on {torch.cuda.get_device_name()}" if self.on_gpu else "on the CPU"
            raise CannotRun(f"{self.program.name} failed {where}: {text}", fatal=self.on_gpu) from error

    def _outputs(self, arguments: list[Any]) -> dict[Buffer, torch.Tensor]:
        return {p: a.cpu() for p, a in zip(self.program.params, arguments) if isinstance(p, Buffer) and p in self.roles.outputs}

    # -- judging -------------------------------------------------------------------------------------------------------
    def _judge(self, result: RunResult, against: str, values: list[Any], actual: dict[Buffer, torch.Tensor]) -> None:
        interpreted: _Interpreted | None = None
        if against == "reference":
            expected = dict(zip(self.roles.outputs, self._ask_reference(values)))
        elif against == "tilelang":
            expected = self._ask_tilelang(values)
        else:
            interpreted = self._interpret(values, self.options.interpreter_seconds)
            expected, result.faults = interpreted.outputs, interpreted.result.faults
        result.against = against
        compared = {b: self._compare(b, actual[b], expected[b], values) for b in self.roles.outputs}
        _summarise(result, list(compared.values()))
        wrong = next((b for b, c in compared.items() if c.mismatch is not None), None)
        if wrong is not None:
            self._explain(result, wrong, compared[wrong], actual, expected, values, interpreted)
        elif result.faults:
            first = result.faults[0]
            result.error = f"{first.span}: {first.message}" if first.span is not None else first.message
        result.ok = wrong is None and not result.faults

    def _ask_reference(self, values: list[Any]) -> list[torch.Tensor]:
        """On the GPU where the kernel runs there: what takes a CPU minutes. A function that only works on the CPU is called there."""
        user, module = self.user, self.module
        assert user is not None and module is not None

        def call(arguments: list[Any]) -> list[torch.Tensor]:
            return call_reference(module, user.functions.reference, self.program, self.roles, user.instance, arguments)

        if self.on_gpu:
            try:
                with _whole_sums():
                    return call(self._fresh(values))
            except (ReferenceFault, torch.OutOfMemoryError):
                torch.cuda.empty_cache()
        return call(values)

    def _ask_tilelang(self, values: list[Any]) -> dict[Buffer, torch.Tensor]:
        assert self.options.oracle is not None
        numbers = [i for i, p in enumerate(self.program.params) if p in self.roles.outputs]
        return {self.program.params[i]: t for i, t in zip(numbers, self.options.oracle(self._fresh_cpu(values), numbers))}  # type: ignore[misc]

    def _compare(self, output: Buffer, actual: torch.Tensor, expected: torch.Tensor, values: list[Any]) -> Comparison:
        depth = max((max(v.shape, default=1) for p, v in zip(self.program.params, values) if isinstance(v, torch.Tensor) and p not in self.roles.outputs),
                    default=1)
        return compare(output, actual, expected, tolerance(self.program, output, depth, self.on_gpu), output_tile(self.program, output))

    def _interpret(self, values: list[Any], seconds: float) -> _Interpreted:
        def progress(done: int, total: int) -> None:
            if total >= 8 and done % (total // 8) == 0:
                self.report(f"interpreting block {done} of {total}")

        arguments = self._fresh_cpu(values)
        try:
            result = interpret_arguments(self.program, arguments, seconds, progress)
        except Unsupported as error:
            place = f"{error.span}: " if error.span is not None else ""
            raise CannotRun(f"{place}the tile interpreter cannot follow this: {error}; define a `reference` function in the file to compare with") from error
        except OutOfTime:
            raise CannotRun(f"the tile interpreter needs more than {seconds:.0f} s for this instance; take a smaller one, or define a `reference` function "
                            "in the file to compare with") from None
        return _Interpreted(result, self._outputs(arguments))

    def _fresh_cpu(self, values: list[Any]) -> list[Any]:
        return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]

    def _explain(self, result: RunResult, output: Buffer, compared: Comparison, actual: dict[Buffer, torch.Tensor], expected: dict[Buffer, torch.Tensor],
                 values: list[Any], interpreted: _Interpreted | None) -> None:
        """What is wrong, which statement wrote it, and whose fault it is."""
        m = compared.mismatch
        assert m is not None
        blame = ""
        if interpreted is None:
            interpreted, blame = self._second_opinion(output, actual, expected, values)
            result.faults = interpreted.result.faults if interpreted is not None else []
        if interpreted is not None:
            m.writer = writer_of(interpreted.result.statements, interpreted.result.writers.get(output), m.shape, m.first)
        result.mismatch = m
        result.error = " ".join(part for part in (describe(m), _writer_text(m.writer), blame, _fault_text(result.faults)) if part)

    def _second_opinion(self, output: Buffer, actual: dict[Buffer, torch.Tensor], expected: dict[Buffer, torch.Tensor],
                        values: list[Any]) -> tuple[_Interpreted | None, str]:
        self.report("looking for the cause")
        try:
            found = self._interpret(values, DIAGNOSIS_SECONDS)
        except CannotRun:
            return None, ""
        interpreted = found.outputs[output]
        if self._compare(output, interpreted, expected[output], values).mismatch is None:
            return found, "The tile interpreter agrees with the reference, so the compiled code is at fault, not the kernel: please report it."
        if self._compare(output, actual[output], interpreted, values).mismatch is None:
            return found, "The tile interpreter computes the same as the compiled kernel, so it is the kernel's source (or the reference) that is wrong."
        return found, ""

    # -- measuring -----------------------------------------------------------------------------------------------------
    def _measure(self, kernel: Any, values: list[Any]) -> timing.Latency | None:
        if self.options.repeat <= 0:
            return None
        arguments = self._fresh(values)
        if self.on_gpu:
            return timing.measure_cuda(kernel.prepared(*arguments), self.options.warmup, self.options.repeat)
        return timing.measure_cpu(lambda: kernel(*arguments), self.options.warmup, self.options.repeat)

    def _measure_reference(self, values: list[Any]) -> float | None:
        """Milliseconds of the reference function where the kernel ran; None if it does not work there."""
        user, module = self.user, self.module
        assert user is not None and module is not None
        arguments = self._fresh(values)

        def call() -> Any:
            return call_reference(module, user.functions.reference, self.program, self.roles, user.instance, arguments)

        measure = timing.measure_cuda if self.on_gpu else timing.measure_cpu
        try:
            return measure(call, min(self.options.warmup, 3), max(self.options.repeat, 1)).median
        except (ReferenceFault, torch.OutOfMemoryError):
            return None

    def _rates(self, result: RunResult, values: list[Any], kernel: Any) -> None:
        if result.latency is None or result.latency.median <= 0:
            return
        known = extents_of(self.program, {})
        for p, v in zip(self.program.params, values):
            if isinstance(p, Buffer):
                known.update({e: size for e, size in zip(p.shape, v.shape) if e in known})  # type: ignore[misc, index]
            else:
                known[p] = v
        seconds = result.latency.median * 1e-3
        operations = flops(self.program, known)
        result.tflops = operations / seconds / 1e12 if operations else None
        updated = {b for b in self.roles.outputs if b in self.roles.read or b in self.roles.accumulated}
        try:
            moved = parameter_bytes(self.program, known, updated)
        except (KeyError, ValueError):
            return
        result.gbps = moved / seconds / 1e9
        if self.on_gpu:
            result.roofline = kernel.roofline(operations, moved, seconds)


@dataclass
class _Interpreted:
    result: InterpreterResult
    outputs: dict[Buffer, torch.Tensor]


def _summarise(result: RunResult, compared: list[Comparison]) -> None:
    worst = max(compared, key=lambda c: c.max_abs)
    result.max_abs_err, result.max_rel_err = worst.max_abs, max(c.max_rel for c in compared)
    result.mean_abs_err = max(c.mean_abs for c in compared)
    result.rtol, result.atol = worst.rtol, worst.atol


def describe(m: Mismatch) -> str:
    """How much of an output is wrong, and the first wrong element."""
    share = 100.0 * m.count / max(m.total, 1)
    place = f"{m.output}[{', '.join(map(str, m.first))}]"
    value = "is not a number" if m.unwritten else f"is {m.actual:.6g}"
    return f"{m.count} of {m.total} elements of {m.output} are wrong ({share:.3g} %), first {place}, which {value}; expected {m.expected:.6g}."


def _writer_text(writer: Span | None) -> str:
    return f"It is written by the statement at {Path(writer.path).name}:{writer.line}:{writer.column}." if writer is not None else ""


def _fault_text(faults: list[Fault]) -> str:
    if not faults:
        return ""
    first = faults[0]
    return f"{first.span}: {first.message}." if first.span is not None else f"{first.message}."


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "CPU"
