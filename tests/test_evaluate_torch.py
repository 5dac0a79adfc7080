"""Shapes of torch tensors, and the classes of torch that kernels are called from."""
from __future__ import annotations

import ast
from typing import Any

import pytest
from evaluate_support import EAGER, FACTORY, HEADER, calls, shapes
from tilec.evaluate.evaluator import Evaluator
from tilec.evaluate.scope import Scope
from tilec.evaluate.values import HostTensor, is_unknown
from tilec.evaluate.workspace import Workspace, run_tolerantly
from tilec.source import SourceFile


def value(text: str) -> Any:
    source = SourceFile("host.py", HEADER + "from einops import rearrange, repeat, einsum\nimport torch.nn.functional as F\n"
                        "x = torch.empty(2, 3, 4, 8)\nv = torch.empty(6, dtype=torch.float16)\nmask = torch.zeros(2, 3) > 0\n")
    evaluator, scope = Evaluator(source, Workspace()), Scope(None, "module", source)
    run_tolerantly(evaluator, source.tree.body, scope)
    return evaluator.eval(ast.parse(text, mode="eval").body, scope)


def shown(found: Any) -> Any:
    """A tensor's shape with ``?`` for what is not known."""
    if isinstance(found, HostTensor):
        return tuple("?" if is_unknown(s) else s for s in found.shape)
    return [shown(f) for f in found] if isinstance(found, (tuple, list)) else found


@pytest.mark.parametrize(("text", "expected"), [
    ("x.transpose(1, 2)", (2, 4, 3, 8)),
    ("x.permute(3, 0, 1, 2)", (8, 2, 3, 4)),
    ("x.reshape(6, -1)", (6, 32)),
    ("x.view(2, 3, 2, 2, 8)", (2, 3, 2, 2, 8)),
    ("x.flatten(1, 2)", (2, 12, 8)),
    ("x.unsqueeze(-1)", (2, 3, 4, 8, 1)),
    ("x[:, None, 1]", (2, 1, 4, 8)),
    ("x[..., 1:-1]", (2, 3, 4, 6)),
    ("x[..., ::2]", (2, 3, 4, 4)),
    ("x[v]", (6, 3, 4, 8)),
    ("x[mask]", ("?", 4, 8)),
    ("x[torch.nonzero(v).flatten()]", ("?", 3, 4, 8)),
    ("x.sum(dim=1)", (2, 4, 8)),
    ("x.amax(-1, keepdim=True)", (2, 3, 4, 1)),
    ("x.max(dim=0)", [(3, 4, 8), (3, 4, 8)]),
    ("torch.topk(x, 2, dim=1).indices", (2, 2, 4, 8)),
    ("torch.cat([x, x], dim=2)", (2, 3, 8, 8)),
    ("torch.stack((v, v))", (2, 6)),
    ("x.chunk(2, dim=-1)", [(2, 3, 4, 4), (2, 3, 4, 4)]),
    ("x.split([1, 2], dim=1)", [(2, 1, 4, 8), (2, 2, 4, 8)]),
    ("v.expand(5, -1)", (5, 6)),
    ("x @ x.mT", (2, 3, 4, 4)),
    ("torch.einsum('bhmk,bhnk->bhmn', x, x)", (2, 3, 4, 4)),
    ("einsum(x, x, 'b h m k, b h n k -> b h m n')", (2, 3, 4, 4)),
    ("rearrange(x, 'b h (s t) d -> b s (h d) t', t=2)", (2, 2, 24, 2)),
    ("rearrange(x, 'b s ... -> (b s) ...')", (6, 4, 8)),
    ("repeat(v, 'n -> b n', b=4)", (4, 6)),
    ("F.pad(x, (1, 2, 0, 5))", (2, 3, 9, 11)),
    ("torch.empty_like(x)[0] * 2 + 1", (3, 4, 8)),
    ("torch.zeros(3, 1) + v", (3, 6)),
    ("torch.tensor([[1, 2], [3, 4], [5, 6]])", (3, 2)),
    ("torch.arange(2, 9)", (7,)),
    ("x.new_zeros(4, 5)", (4, 5)),
    ("v.view(torch.int32)", (3,)),
    ("x.shape[1:].numel()", 96),
    ("x.stride(1)", 32),
    ("x.numel()", 192),
    ("v.element_size() + v.dim()", 3),
    ("torch.finfo(torch.float16).max", 65504.0),
])
def test_shapes(text: str, expected: Any) -> None:
    assert shown(value(text)) == expected


@pytest.mark.parametrize(("text", "dtype"), [
    ("v.to(torch.bfloat16)", "bfloat16"), ("v.float()", "float32"), ("v > 0", "bool"), ("v.argmax(0)", "int64"), ("torch.randint(0, 2, (3,))", "int64"),
    ("torch.ones(3, dtype=torch.int8)", "int8"), ("torch.tensor([1, 2])", "int64"), ("torch.zeros_like(v)", "float16"), ("v * 2", "float16"),
])
def test_dtypes(text: str, dtype: str) -> None:
    assert value(text).dtype == dtype


def test_data_is_not_known() -> None:
    assert is_unknown(value("v.max().item()")) and is_unknown(value("int(v[0])")) and is_unknown(value("x.unheard_of()"))


def test_shapes_reach_a_factory() -> None:
    code = "q = torch.randn(4, 64, 32)\nB, M, N = q.shape\nscale(B * M, q.size(-1), dtype=T.float16 if q.dtype == torch.float16 else T.float32)"
    assert calls(FACTORY + code) == ["scale(256, 32, dtype='float32')"]


def test_tensors_fix_the_extents_of_an_eager_kernel() -> None:
    assert shapes(EAGER + "scale(torch.empty(128, 96))") == ["A: float16[128, 96], B: float16[128, 96]"]


def test_results_of_kernels_have_shapes() -> None:
    code = "y = scale(128, 32)(torch.empty(128, 32))\nscale(y.shape[1], y.shape[0])"
    assert calls(FACTORY + code) == ["scale(128, 32)", "scale(32, 128)"]


def test_autograd_functions_run_both_ways() -> None:
    code = '''
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, block):
        ctx.save_for_backward(x)
        ctx.block = block
        return scale(*x.shape, block=block)(x)

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        scale(x.shape[1], grad.shape[0], block=ctx.block)
        return x, None

Scale.apply(torch.randn(128, 32), 16)
'''
    assert calls(FACTORY + code) == ["scale(128, 32, block=16)", "scale(32, 128, block=16)"]


def test_modules_are_called() -> None:
    code = '''
import torch.nn as nn

class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n, 32))
        self.kernel = scale(n, 32)

    def forward(self, x):
        return scale(x.shape[0], self.weight.shape[1])(x)

Layer(8).cuda()(torch.empty(16, 32))
'''
    assert calls(FACTORY + code) == ["scale(8, 32)", "scale(16, 32)"]
