"""The synchronisation of specialised kernels, simulated: no deadlock, no stage overwritten while it is read, none read before it is there."""
from __future__ import annotations

import hopper_kernels as kernels
import pytest
from role_machine import Fault, simulate
from tilec.ir.stmt import TileOp

PROGRAMS = {
    "product": lambda: kernels.product(256, 256, 512), "one stage": lambda: kernels.product(256, 256, 512, stages=1), "four stages": lambda: kernels.product(256, 256, 512, stages=4, block_K=32),
    "one iteration": lambda: kernels.product(64, 8, 8), "three warpgroups": lambda: kernels.product(384, 256, 512, block_M=192, threads=384),
    "blocks stay": lambda: kernels.product(4096, 4096, 192), "blocks stay, one stage": lambda: kernels.product(4096, 4096, 128, stages=1),
    "blocks stay, wide": lambda: kernels.product(4096, 4096, 256, block_N=256), "swizzled": lambda: kernels.product(4096, 4096, 128, swizzle=3),
    "loop in the text": lambda: kernels.persistent(1024, 1024, 256), "loop in the text, all": lambda: kernels.persistent(512, 512, 192, blocks=1),
    "vector": lambda: kernels.scaled(256, 256, 512), "attention": lambda: kernels.attention(1, 2, 512, 64, False), "odd": lambda: kernels.attention(1, 2, 200, 64, False),
    "one tile of keys": lambda: kernels.attention(1, 2, 64, 64, False), "causal": lambda: kernels.attention(1, 2, 512, 128, True, 128, 128, 2, 256),
    "attention, one stage": lambda: kernels.attention(1, 2, 512, 64, False, stages=1), "attention, three": lambda: kernels.attention(1, 2, 512, 64, True, stages=3),
    "attention stays": lambda: kernels.attention(4, 40, 512, 64, False), "attention stays, one stage": lambda: kernels.attention(4, 40, 256, 64, False, stages=1),
    "shared values 1": lambda: kernels.shared_values(512, 4, 128, stages=1), "shared values 2": lambda: kernels.shared_values(512, 4, 128),
    "shared values 3, stays": lambda: kernels.shared_values(2048, 16, 128, stages=3),
    "weights in shared": lambda: kernels.weights_in_shared(512, 2, 64), "weights in shared, rotated": lambda: kernels.weights_in_shared(512, 2, 64, policy="FullRow", threads=128),
}


def thread_program(program):
    from tilec.jit import compile

    made = compile(program, target="sm_90a").artifact
    assert "copying warp" in " ".join(map(str, made.decisions()))
    return made.thread_program


@pytest.mark.parametrize("name", PROGRAMS)
def test_roles_agree(name):
    simulate(thread_program(PROGRAMS[name]()))


def test_run_time_rows():
    made = thread_program(kernels.product(kernels.T.dynamic("m"), 256, 256))
    for rows in (1, 129, 300):
        simulate(made, m=rows)


@pytest.mark.parametrize("name, left_out", [("product", "bulk_release"), ("blocks stay", "bulk_release"), ("product", "mbarrier_wait_parity"), ("attention stays", "wgmma_wait")])
def test_the_simulation_notices_what_is_missing(name, left_out, monkeypatch):
    """Without one kind of synchronisation, among the consumers, every such kernel is at fault."""
    from tilec.transform import registry
    from tilec.transform.rewrite import map_children
    from tilec.transform.specialise import launch as specialise

    plain = specialise.Specialisation.launch

    def without(self):
        def visit(body):
            return tuple(map_children(s, visit) for s in body if not (isinstance(s, TileOp) and s.op == left_out))

        made = plain(self)
        consumer = made.body[-1]
        from dataclasses import replace

        return replace(made, body=(*made.body[:-1], replace(consumer, then=visit(consumer.then))))

    monkeypatch.setattr(specialise.Specialisation, "launch", without)
    assert registry.PASSES
    with pytest.raises(Fault):
        simulate(thread_program(PROGRAMS[name]()))
