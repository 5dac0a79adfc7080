"""Calls of compiled kernels without a GPU: what reaches the driver, and that calls that are compared with an earlier one are accepted when, and only when,
all checks would accept them. The driver is a library that launches nothing (``fake_cuda``)."""
from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref
from types import SimpleNamespace

import fake_cuda
import pytest
import torch
from tilec.build import launch
from tilec.build.launch import LaunchError
from tilec.emit.arguments import ArgumentError
from tilec.jit import compile, jit
from tilec.jit.language import member
from tilec.jit.trace import prim_func
from tilec.runtime import cpu_call, gpu, looks


class _Language:
    prim_func = staticmethod(prim_func)

    def __getattr__(self, name):
        return member("tilelang.language", name)


T = _Language()
ROWS = T.dynamic("rows")
STEP = T.dynamic("step")


@T.prim_func
def add(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32"), C: T.Tensor((4, 64), "float32")):
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(64):
            C[bx, i] = A[bx, i] + B[bx, i]


@T.prim_func
def scaled(A: T.Tensor((ROWS, 64), "float16"), scale: T.float32, shift: T.int32, B: T.Tensor((ROWS, 64), "float16")):
    with T.Kernel(T.ceildiv(ROWS, 4), threads=64) as bx:
        for i, j in T.Parallel(4, 64):
            B[bx * 4 + i, j] = A[bx * 4 + i, j] * T.cast(scale, "float16") + T.cast(shift, "float16")


@T.prim_func
def counted(n: T.int32, A: T.Tensor((1024,), "float32")):
    with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
        for i in T.Parallel(64):
            A[bx * 64 + i] = 1.0


@T.prim_func
def strided(A: T.StridedTensor((8, 16), (STEP, 1), "float32"), B: T.Tensor((8, 16), "float32")):
    with T.Kernel(1, threads=64):
        for i, j in T.Parallel(8, 16):
            B[i, j] = A[i, j]


@T.prim_func
def columns(A: T.Tensor((8, ROWS), "float16"), B: T.Tensor((8, ROWS), "float16")):
    with T.Kernel(T.ceildiv(ROWS, 64), threads=64) as bx:
        for i, j in T.Parallel(8, 64):
            B[i, bx * 64 + j] = A[i, bx * 64 + j]


@T.prim_func
def pointers(a_ptr: T.ptr, n: T.int32, C: T.Tensor((64,), "float32")):
    A = T.make_tensor(a_ptr, (n,), "float32")
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            C[i] = A[i]


@T.prim_func
def product(A: T.Tensor((ROWS, 128), "float16"), B: T.Tensor((128, 128), "float16"), C: T.Tensor((ROWS, 128), "float32")):
    with T.Kernel(T.ceildiv(ROWS, 128), threads=128) as bx:
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((64, 128), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[bx * 128, k * 64], a)
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C[bx * 128, 0])


@T.prim_func
def two_kernels(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
    W = T.alloc_global((256,), "float32")
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(64):
            W[bx * 64 + i] = A[bx * 64 + i] * T.float32(2)
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(64):
            B[bx * 64 + i] = W[255 - bx * 64 - i]


# -- a GPU that is none ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="session")
def library(tmp_path_factory):
    path = fake_cuda.build(tmp_path_factory.mktemp("driver"))
    if path is None:
        pytest.skip("no C compiler")
    return path


@pytest.fixture
def device(library, monkeypatch):
    """The driver and torch of a machine whose GPU holds the CPU's tensors."""
    monkeypatch.setattr(launch, "LIBRARIES", (str(library),))
    monkeypatch.setattr(gpu, "KIND", "cpu")
    driver = fake_cuda.FakeDriver(library)
    driver.expect(0)
    yield SimpleNamespace(driver=driver, torch=fake_cuda.FakeTorch())
    driver.fail(0)


def loaded(device, function, out_idx=None):
    kernel = compile(function, target="sm_90a", out_idx=out_idx)
    kernel.artifact._cubin = SimpleNamespace(data=b"", resources={})
    if kernel.artifact.assumed:
        kernel.artifact.general()._cubin = kernel.artifact._cubin
    real = sys.modules["torch"]
    sys.modules["torch"] = device.torch
    try:
        kernel.launcher()
        if kernel.artifact.assumed:
            kernel.launcher()._general = gpu.GpuKernel(kernel.artifact.general())
    finally:
        sys.modules["torch"] = real
    return kernel


def launches(device, parameters, call, *arguments):
    device.driver.expect(parameters)
    device.driver.launches()
    result = call(*arguments)
    device.driver.expect(0)
    return result, device.driver.launches()


def half(*shape):
    return torch.ones(shape, dtype=torch.float16)


# -- what reaches the driver -----------------------------------------------------------------------------------------------
def test_addresses_grid_and_stream_of_each_call(device):
    kernel = loaded(device, add)
    for turn in range(4):
        a, b, c = torch.ones(4, 64), torch.ones(4, 64), torch.ones(4, 64)
        device.torch.cuda.stream = 0x5000 + turn
        _, (made,) = launches(device, 3, kernel, a, b, c)
        assert made.values == [a.data_ptr(), b.data_ptr(), c.data_ptr()]
        assert (made.grid, made.block, made.stream) == ((4, 1, 1), (64, 1, 1), 0x5000 + turn)


def test_the_same_tensor_twice_keywords_and_parameters(device):
    kernel = loaded(device, add)
    a, c = torch.ones(4, 64), torch.nn.Parameter(torch.ones(4, 64))
    for call in (lambda: kernel(a, a, c), lambda: kernel(a, C=c, B=a), lambda: kernel(C=c, B=a, A=a)):
        for _ in range(3):
            assert launches(device, 3, call)[1][0].values == [a.data_ptr(), a.data_ptr(), c.data_ptr()]
    with pytest.raises(ArgumentError, match="no parameter 'D'"):
        kernel(a, a, D=c)
    with pytest.raises(ArgumentError, match="num_args should be 3, but 2 were given"):
        kernel(a, C=c)


def test_numbers_that_only_kernels_read_are_not_checked_anew(device, monkeypatch):
    kernel = loaded(device, scaled)
    a, b = half(8, 64), half(8, 64)
    kernel(a, 1.0, 1, b)
    monkeypatch.setattr(gpu, "check_arguments", lambda *_: pytest.fail("checked anew"))
    order = [p.name for p in kernel.artifact.cuda().kernels[0].arguments]
    for scale, shift in ((2.5, -3), (-1.0, 2**31 - 1), (0.0, 0)):
        made = launches(device, len(order), kernel, a, scale, shift, b)[1][0]
        passed = dict(zip(order, made.values))
        assert passed["A"] == a.data_ptr() and passed["B"] == b.data_ptr()
        as_float = torch.tensor([passed["scale"] & 0xFFFFFFFF]).to(torch.int32).view(torch.float32).item()
        assert as_float == scale and passed["shift"] & 0xFFFFFFFF == shift & 0xFFFFFFFF


def test_a_number_that_the_grid_depends_on_is_looked_at(device):
    kernel = loaded(device, counted)
    a = torch.ones(1024)
    for n in (64, 65, 1024, 64, 65, 0):
        made = launches(device, 1, kernel, n, a)[1]
        assert [m.grid[0] for m in made] == ([-(-n // 64)] if n else [])


def test_sizes_come_and_go(device):
    """More of them than are remembered, in two orders; each time the grid is right."""
    kernel = loaded(device, scaled)
    sizes = list(range(1, 60, 3))
    for n in (*sizes, *sizes, *reversed(sizes), 0, 8, 0):
        a, b = half(n, 64), half(n, 64)
        made = launches(device, 4, kernel, a, 1.0, 1, b)[1]
        assert [m.grid[0] for m in made] == ([-(-n // 4)] if n else [])
        assert all({a.data_ptr(), b.data_ptr()} <= set(m.values) for m in made)


def test_pointers(device):
    kernel = loaded(device, pointers)
    order = [p.name for p in kernel.artifact.cuda().kernels[0].arguments]
    c = torch.ones(64)
    for given in (torch.ones(64), torch.ones(64), torch.ones(128), 0x7000, 0x7100, torch.ones(64)):
        made = launches(device, len(order), kernel, given, 64, c)[1][0]
        assert dict(zip(order, made.values))["a_ptr"] == (given if isinstance(given, int) else given.data_ptr())
    for wrong in (None, 1.5, True, "x"):
        with pytest.raises(ArgumentError, match="a tensor or an address"):
            kernel(wrong, 64, c)


def test_tensor_maps_follow_their_tensors(device):
    kernel = loaded(device, product)
    spec = kernel.artifact.cuda().kernels[0]
    mapped = [i for i, p in enumerate(spec.arguments) if type(p).__name__ == "TensorMap"]
    assert mapped
    b = half(128, 128)
    first, second = half(256, 128), half(256, 128)
    for a in (first, second, first, first, half(512, 128)):
        c = torch.ones(len(a), 128)
        made = launches(device, len(spec.arguments), kernel, a, b, c)[1][0]
        addresses = {"A": a.data_ptr(), "B": b.data_ptr(), "C": c.data_ptr()}
        for i in mapped:  # the fake driver writes the address first
            assert made.values[i] == addresses[spec.arguments[i].buffer.name]
        before = device.driver.encoded
        launches(device, 1, kernel, a, b, c)
        assert device.driver.encoded == before, "nothing moved"
    kernel(half(0, 128), b, torch.ones(0, 128))


def test_kernels_in_a_row_share_a_workspace(device):
    kernel = loaded(device, two_kernels)
    a, b = torch.ones(256), torch.ones(256)
    for _ in range(2):
        first, second = launches(device, 2, kernel, a, b)[1]
        workspace = (set(first.values) - {a.data_ptr()}).pop()
        assert workspace in second.values and b.data_ptr() in second.values and first.function != second.function


def test_rows_that_are_no_multiple_of_16_bytes_take_the_general_version(device):
    kernel = loaded(device, columns)
    assert kernel.artifact.assumed
    odd = torch.ones(8 * 64 + 1, dtype=torch.float16)[1:].view(8, 64)
    one = _function(device, kernel, half(8, 64))
    other = _function(device, kernel, half(8, 65))
    assert one != other
    for a in (half(8, 64), odd, half(8, 64), half(8, 64), odd, odd, half(8, 72), half(8, 65), half(8, 64)):
        assert _function(device, kernel, a) == (other if a is odd or a.shape[1] % 8 else one)


def _function(device, kernel, a):
    return launches(device, 2, kernel, a, half(*a.shape))[1][0].function


# -- outputs ------------------------------------------------------------------------------------------------------------------
def test_outputs_are_new_each_time(device):
    kernel = loaded(device, scaled, out_idx=-1)
    kept = []
    for n in (8, 8, 8, 12, 8, 0, 12):
        a = half(n, 64)
        out, made = launches(device, 4, kernel, a, 1.0, 1)
        assert out.shape == (n, 64) and out.dtype is torch.float16 and out.is_contiguous() and not out.requires_grad
        assert all(out.data_ptr() in m.values for m in made) and len(made) == (n > 0)
        assert not n or out.data_ptr() not in [o.data_ptr() for o in kept]
        kept.append(out)
    with pytest.raises(ArgumentError, match="takes 3 arguments"):
        kernel(half(8, 64))


def test_the_caller_may_bring_the_outputs(device):
    kernel = loaded(device, add, out_idx=[1, 2])
    a, b, c = torch.ones(4, 64), torch.ones(4, 64), torch.ones(4, 64)
    for _ in range(3):
        made = kernel(a)
        assert isinstance(made, list) and [t.shape for t in made] == [(4, 64)] * 2
        brought = kernel(a, b, c)
        assert brought[0] is b and brought[1] is c
    only = loaded(device, add, out_idx=2)
    assert only(a, b, c) is c and only(a, b, c) is c and only(a, b) is not c


# -- several callers ----------------------------------------------------------------------------------------------------------
def test_threads_do_not_mix_their_arguments(device):
    kernel = loaded(device, scaled)
    order = [p.name for p in kernel.artifact.cuda().kernels[0].arguments]
    device.driver.expect(len(order))
    device.driver.launches()
    tensors = [(half(8, 64), half(8, 64)) for _ in range(6)]

    def work(k):
        for _ in range(100):
            kernel(tensors[k][0], float(k), k, tensors[k][1])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    seen = device.driver.launches()
    assert len(seen) == 600
    for made in seen:
        passed = dict(zip(order, made.values))
        k = passed["shift"] & 0xFFFFFFFF
        assert (passed["A"], passed["B"]) == (tensors[k][0].data_ptr(), tensors[k][1].data_ptr())


def test_a_call_amid_a_call_has_a_frame_of_its_own(device):
    kernel = loaded(device, add)
    outer, inner = [torch.ones(4, 64) for _ in range(3)], [torch.ones(4, 64) for _ in range(3)]
    device.torch._C._cuda_getCurrentRawStream = lambda index: nested.pop()() if nested else 0x5000
    nested = []
    kernel(*outer)
    nested.append(lambda: kernel(*inner) or 0x5000)
    made = launches(device, 3, kernel, *outer)[1]
    assert [m.values for m in made] == [[t.data_ptr() for t in inner], [t.data_ptr() for t in outer]]


def test_a_refused_launch_is_told_and_forgotten(device):
    kernel = loaded(device, add)
    tensors = [torch.ones(4, 64) for _ in range(3)]
    kernel(*tensors)
    device.driver.fail(719)
    for _ in range(3):
        with pytest.raises(LaunchError, match="launching the kernel failed: a fake error"):
            kernel(*tensors)
    device.driver.fail(0)
    assert len(launches(device, 3, kernel, *tensors)[1]) == 1


def test_a_kernel_of_another_device_is_launched_there(device):
    device.torch.cuda.count = 2
    kernel = loaded(device, add)
    tensors = [torch.ones(4, 64) for _ in range(3)]
    kernel(*tensors)
    device.torch.cuda.now = 1
    again = loaded(device, add)
    for k in (kernel, again):
        entered = len(device.torch.cuda.entered)
        for _ in range(2):
            assert len(launches(device, 3, k, *tensors)[1]) == 1
        assert len(device.torch.cuda.entered) > entered and device.torch.cuda.now == 1


def test_a_call_that_is_remembered_keeps_no_tensor(device):
    kernel = loaded(device, add)
    tensors = [torch.ones(4, 64) for _ in range(3)]
    kernel(*tensors)
    kernel(*tensors)
    watched = [weakref.ref(t) for t in tensors]
    del tensors
    gc.collect()
    assert not any(w() is not None for w in watched)


# -- accepted when, and only when, all checks accept ---------------------------------------------------------------------------
class Own(torch.Tensor):
    """A subclass."""


def variants(t):
    """A tensor in ways that matter and ways that do not."""
    flat = torch.ones(t.numel() * 2 + 8, dtype=t.dtype)
    yield "itself", t
    yield "a copy", t.clone()
    yield "needs gradients", t.clone().requires_grad_() if t.is_floating_point() else t
    yield "a parameter", torch.nn.Parameter(t.clone(), requires_grad=False)
    yield "a subclass", t.clone().as_subclass(Own)
    yield "another type", t.to(torch.float64)
    yield "another type of the same size", t.clone().view(torch.int16 if t.element_size() == 2 else torch.int32)
    yield "a row more", torch.ones(t.shape[0] + 1, *t.shape[1:], dtype=t.dtype)
    yield "a column less", torch.ones(*t.shape[:-1], t.shape[-1] - 1, dtype=t.dtype)
    yield "flat", t.reshape(-1)
    yield "a dimension more", t[None]
    yield "no dimension", torch.ones((), dtype=t.dtype)
    yield "transposed", torch.ones(t.shape[::-1], dtype=t.dtype).permute(*reversed(range(t.ndim)))
    yield "every second row", flat[: t.numel() * 2].view(t.shape[0] * 2, *t.shape[1:])[::2]
    yield "broadcast", torch.ones(1, *t.shape[1:], dtype=t.dtype).expand(t.shape)
    yield "strides of a wider tensor", torch.ones(t.shape[0], *t.shape[1:-1], t.shape[-1] + 8, dtype=t.dtype)[..., : t.shape[-1]] if t.ndim > 1 else t
    yield "16 bytes on", flat[16 // t.element_size():][: t.numel()].view(t.shape)
    yield "an element on", flat[1:][: t.numel()].view(t.shape)
    yield "no elements", torch.ones(0, *t.shape[1:], dtype=t.dtype)
    yield "one row", torch.ones(1, *t.shape[1:], dtype=t.dtype)
    yield "one row, odd stride", torch.ones(3, *t.shape[1:-1], t.shape[-1] * 2, dtype=t.dtype)[:1, ..., : t.shape[-1]] if t.ndim > 1 else t
    yield "elsewhere", torch.ones(t.shape, dtype=t.dtype, device="meta")
    yield "sparse", torch.ones(t.shape).to_sparse()
    yield "negated", torch.complex(t.float(), t.float()).conj().imag
    yield "an array", t.float().numpy()
    yield "nothing", None
    yield "a number", 3
    yield "a list", t.float().tolist()


NUMBERS = [("a number", 3), ("another", 4), ("a float", 2.5), ("true", True), ("a large one", 2**40), ("nothing", None), ("text", "3"), ("a tensor", torch.ones(()))]
PROGRAMS = {
    "add": (add, lambda: [torch.ones(4, 64) for _ in range(3)]),
    "scaled": (scaled, lambda: [half(8, 64), 1.0, 3, half(8, 64)]),
    "counted": (counted, lambda: [3, torch.ones(1024)]),
    "strided": (strided, lambda: [torch.ones(8, 24)[:, :16], torch.ones(8, 16)]),
    "columns": (columns, lambda: [half(8, 64), half(8, 64)]),
}


def odd_calls(base):
    """Arguments of which one, two or all differ, and wrong counts."""
    lists = [list(variants(a)) if isinstance(a, torch.Tensor) else NUMBERS for a in base()]
    for i, values in enumerate(lists):
        for name, value in values:
            changed = base()
            changed[i] = value
            yield f"{i}: {name}", changed
    tensors = [i for i, a in enumerate(base()) if isinstance(a, torch.Tensor)]
    for i, j in itertools.combinations(tensors, 2):
        for (name, one), (_, other) in zip(lists[i], lists[j]):
            changed = base()
            changed[i], changed[j] = one, other
            yield f"{i} and {j}: {name}", changed
    yield "too few", base()[:-1]
    yield "too many", [*base(), base()[-1]]
    yield "none", []


def outcome(device, call, arguments):
    """What the driver is given, or the message."""
    device.driver.launches()
    try:
        call(*arguments)
    except (ArgumentError, LaunchError) as error:
        return str(error)
    return [(m.grid, m.block, m.values) for m in device.driver.launches()]


@pytest.mark.parametrize("guards", [True, False], ids=["guards", "no guards"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_later_call_is_accepted_as_a_first_one_would_be(device, name, guards, monkeypatch):
    if not guards:
        monkeypatch.setattr(looks, "_guards_are_strict", lambda: False)
    elif not looks._guards_are_strict():
        pytest.skip("this torch has none")
    function, base = PROGRAMS[name]
    kernel = loaded(device, function)
    device.driver.expect(sum(type(p).__name__ != "TensorMap" for p in kernel.artifact.cuda().kernels[0].arguments))
    accepted = refused = 0
    for what, arguments in odd_calls(base):
        kernel.launcher()._recent, kernel._recent = looks.Recent(), looks.Recent()
        first = outcome(device, kernel.launcher(), arguments)
        kernel.__call__ = kernel._call
        kernel(*base())
        kernel(*base())
        for _ in range(2):
            assert _same(outcome(device, kernel, arguments), first), what
        accepted, refused = accepted + isinstance(first, list), refused + isinstance(first, str)
        assert isinstance(outcome(device, kernel, base()), list)
    assert accepted >= 5 and refused >= 20


def _same(one, other):
    """Numbers of four bytes are read with the four bytes behind them."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return [(g, b, [v & 0xFFFFFFFF for v in values]) for g, b, values in one] == [(g, b, [v & 0xFFFFFFFF for v in values]) for g, b, values in other]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_on_the_cpu(name, monkeypatch):
    pytest.importorskip("tvm")
    function, base = PROGRAMS[name]
    kernel = compile(function, target="llvm")
    called = []
    host = kernel.launcher()._host
    kernel.launcher()._host = lambda *arguments: called.append(arguments)
    for what, arguments in odd_calls(base):
        kernel._recent = looks.Recent()
        kernel.__call__ = kernel._call
        first = _accepts(cpu_call.CpuKernel(kernel._plan(), lambda *arguments: called.append(arguments)), arguments)
        kernel(*base())
        kernel(*base())
        for _ in range(2):
            assert _accepts(kernel, arguments) == first, what
        if first is True and not any(getattr(a, "is_neg", bool)() for a in arguments):
            host(*arguments)  # which checks them too
    assert called


def _accepts(call, arguments):
    try:
        call(*arguments)
    except ArgumentError as error:
        return str(error)
    return True


def test_tensors_changed_in_place_are_seen(device):
    kernel = loaded(device, add)
    fresh = lambda: [torch.ones(4, 64) for _ in range(3)]  # noqa: E731
    changes = {
        "resized": lambda t: t.resize_(4, 32), "grown": lambda t: t.resize_(5, 64), "transposed": lambda t: t.t_(), "emptied": lambda t: t.set_(torch.ones(0)),
        "other data": lambda t: setattr(t, "data", torch.ones(4, 63)), "other strides": lambda t: t.as_strided_((4, 64), (1, 4)),
        "other type": lambda t: setattr(t, "data", torch.ones(4, 64, dtype=torch.float64)),
    }
    for what, change in changes.items():
        for i in range(3):
            tensors = fresh()
            kernel(*tensors)
            kernel(*tensors)
            change(tensors[i])
            with pytest.raises(ArgumentError):
                kernel(*tensors)
                pytest.fail(f"{what} ({i}) was let through")


def test_memory_that_moved_is_passed_where_it_is(device):
    kernel = loaded(device, add)
    a, b, c = (torch.ones(4, 64) for _ in range(3))
    kernel(a, b, c)
    a.set_(torch.ones(4, 64))
    assert launches(device, 3, kernel, a, b, c)[1][0].values == [a.data_ptr(), b.data_ptr(), c.data_ptr()]


def test_modes_of_torch_do_not_matter(device):
    kernel = loaded(device, add)
    tensors = [torch.ones(4, 64) for _ in range(3)]
    kernel(*tensors)
    for mode in (torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu")):
        with mode():
            made = torch.ones(4, 64)
            for given in ([*tensors[:2], made], [made, *tensors[1:]], tensors):
                for _ in range(12):
                    assert launches(device, 3, kernel, *given)[1][0].values == [t.data_ptr() for t in given]


def test_steady_calls_are_not_checked_anew(device, monkeypatch):
    kernel = loaded(device, scaled, out_idx=-1)
    kernel(half(8, 64), 1.0, 1)
    kernel(half(4, 64), 1.0, 1)
    monkeypatch.setattr(gpu, "check_arguments", lambda *_: pytest.fail("checked anew"))
    for n in (8, 4, 8, 8, 4):
        assert kernel(half(n, 64), 2.0, 7).shape == (n, 64)


@pytest.mark.skipif(not looks._guards_are_strict(), reason="this torch has no guards")
def test_guards_answer_for_like_tensors():
    """Else each call would compare property by property."""
    tensors = [torch.ones(3, 4), torch.ones(5, dtype=torch.int32), torch.ones(())]
    check = looks.guard_of(tensors)
    assert check(*[torch.zeros_like(t) for t in tensors])
    for i, name in itertools.product(range(3), ("dtype", "shape")):
        changed = list(tensors)
        changed[i] = changed[i].double() if name == "dtype" else torch.ones(7, 2, dtype=changed[i].dtype)
        assert not check(*changed)
    assert looks.guard_of([tensors[0], tensors[0]]) is None and looks.guard_of([tensors[0].as_subclass(Own)]) is None


def test_eager_kernels_take_their_own_arguments(device):
    @jit(target="sm_90a")
    def sum_of(A, B, block: int = 64, scale: float = 2.0):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B: T.Tensor((N,), "float32")
        C = T.empty((N,), "float32")
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i] * T.float32(scale)
        return C

    a, b = torch.ones(256), torch.ones(256)
    calls = [lambda: sum_of(a, b), lambda: sum_of(a, b, 64), lambda: sum_of(A=a, B=b), lambda: sum_of(a, B=b, block=64), lambda: sum_of(a, b, 128, 3.0)]
    for kernel in {id(k): k for k in (sum_of.compile(a, b), sum_of.compile(a, b, 64), sum_of.compile(A=a, B=b), sum_of.compile(a, B=b, block=64),
                                      sum_of.compile(a, b, 128, 3.0))}.values():
        kernel.artifact._cubin = SimpleNamespace(data=b"", resources={})
        real, sys.modules["torch"] = sys.modules["torch"], device.torch
        kernel.launcher()
        sys.modules["torch"] = real
    for call, _ in itertools.product(calls, range(3)):
        out, (made,) = launches(device, 3, call)
        assert set(made.values) == {a.data_ptr(), b.data_ptr(), out.data_ptr()}
