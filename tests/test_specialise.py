"""Warps that only copy, on Hopper: what is chosen and why not, the text, and the assembler's verdict. Numbers: test_specialise_gpu.py."""
from __future__ import annotations

import re

import hopper_kernels as kernels
import pytest
from tilec.build.nvcc import find_nvcc

T = kernels.T


def artifact(program, target="sm_90a"):
    from tilec.jit import compile

    return compile(program, target=target).artifact


def text(program, target="sm_90a"):
    return artifact(program, target).text("cuda")


def reasons(program):
    return " | ".join(map(str, artifact(program).decisions()))


def test_a_product_is_fed_by_one_warp_and_computed_by_the_others():
    t = text(kernels.product(1024, 1024, 1024))
    assert "cp.async.cg" not in t and "cp.async.bulk.tensor.2d.shared::cluster" in t
    assert "__launch_bounds__(384, 1)" in t and "tile_registers_dec_24" in t and "tile_registers_inc_240" in t
    producer, consumer = t[t.index("if (tx >= 256) {"):].split("if (tx < 256) {")
    assert "wgmma" not in producer and "tile_tma_load" not in consumer
    assert "tile_fence_proxy_async" not in consumer[: consumer.index("tile_wgmma_wait_0")]  # bulk copies need no fence


def test_an_operation_runs_on_while_the_next_stage_arrives():
    body = text(kernels.product(1024, 1024, 1024)).split("if (tx < 256) {")[1]
    loop = body[body.index("for (int k"):body.index("tile_wgmma_wait_0")]
    assert loop.index("tile_wgmma_commit") < loop.index("tile_wgmma_wait_1") < loop.index("if (k > 0)") < loop.index("tile_mbarrier_release")
    assert "tile_registers_keep" not in loop  # the accumulator is still being written


def test_blocks_stay_where_there_are_more_tiles_than_multiprocessors():
    few, many = kernels.product(1024, 1024, 512), kernels.product(4096, 4096, 512)
    assert "tile_rounds" not in text(few) and "tile_rounds(1024)" in text(many)
    spec = artifact(many).cuda().kernels[0]
    assert spec.resident == 1 and [int(e.value) for e in spec.grid] == [1024]


def test_a_tile_that_nobody_reads_is_not_left_to_the_copying_warp():
    """It would arrive at any time, perhaps where another buffer lies by then."""
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float32"), B: T.Tensor((64, 256), "float32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            unread, read, tile = T.alloc_shared((64, 64), "float32"), T.alloc_shared((64, 64), "float32"), T.alloc_shared((64, 64), "float32")
            sums = T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            T.copy(A[0, 0], unread)
            T.copy(A[0, 64], read)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[0, k * 64], tile)
                for i, j in T.Parallel(64, 64):
                    sums[i, j] += tile[i, j]
            for i, j in T.Parallel(64, 64):
                C[i, j] = sums[i, j] + read[i, j]

    producer = text(main).split("if (tx < 128) {")[0]
    assert "tile_tma_load_2d(&read[" in producer and "tile_tma_load_2d(&unread[" not in text(main)


def test_warpgroups_store_what_they_accumulated_without_waiting_for_each_other():
    body = text(kernels.product(4096, 4096, 512)).split("if (tx < 256) {")[1]
    wait, barrier = body.index("tile_tma_store_wait_1();"), body.index("tile_sync_named(group + 1, 128);")  # of the panel before the last
    assert wait < barrier < body.index("tile_stmatrix_x4(") < body.index("tile_fence_proxy_async();") < body.index("tile_tma_store_2d(")
    assert body.rindex("tile_tma_store_wait();") > body.index("tile_tma_store_commit")
    assert "tile_sync_named(15, 256)" not in body and "stmatrix" in reasons(kernels.product(4096, 4096, 512))


@pytest.mark.parametrize("options", [{"out": "float32"}, {"block_N": 24, "trans_B": True}, {"threads": 128, "block_M": 32}, {"sums": "float16"}], ids=str)
def test_other_fragments_are_stored_by_all_threads(options):
    assert "stmatrix" not in text(kernels.product(512, 528, 512, **options))


def test_a_block_that_does_one_tile_stores_through_the_memory_of_its_stages():
    made = artifact(kernels.product(1024, 1024, 512, block_M=64, threads=128, stages=4)).cuda()
    spec = made.kernels[0]
    assert "tile_stmatrix_x4" in made.text and "tile_sync_named(15, 128)" in made.text  # all have multiplied before one overwrites a stage
    assert spec.shared_bytes < 8 * (64 + 128) * 64 * 2 + 1024  # of twice the stages asked for


def test_a_kernel_of_bulk_copies_waits_itself_for_the_one_before():
    made = artifact(kernels.product(1024, 1024, 512)).cuda()
    start = made.text.index("tile_pdl_trigger();")
    assert made.kernels[0].overlaps and start < made.text.index("tile_pdl_sync();") < made.text.index("tile_tma_load_2d(&")
    assert "tile_pdl_sync();" in made.text[made.text.index("tile_sync_threads();"):made.text.index("if (tx >= 256)")]  # by all threads


def test_a_kernel_whose_threads_load_does_not():
    made = artifact(kernels.product(512, 528, 512, out="float32", block_N=24, trans_B=True, disable_tma=True)).cuda()
    assert not made.kernels[0].overlaps and "griddepcontrol" not in made.text
    assert not artifact(kernels.product(512, 514, 512, trans_B=True)).cuda().kernels[0].overlaps  # whose threads store


def test_more_stages_where_memory_is_left():
    assert "4 stages ahead at most (memory is left for more than the 3 asked for)" in reasons(kernels.product(4096, 4096, 4096, block_N=256))
    assert "3 stages ahead at most |" in reasons(kernels.product(4096, 4096, 192))  # there are no more iterations
    spec = artifact(kernels.product(4096, 4096, 4096, block_M=64, threads=128)).cuda().kernels[0]
    assert spec.resident == 2 and 2 * (spec.shared_bytes + 1024) <= 228 * 1024


def test_attention_starts_the_next_scores_before_it_adds_the_values():
    body = text(kernels.attention(1, 2, 512, 128, False, 128, 128, 2, 256)).split("if (tx < 256) {")[1]
    loop = body[body.index("for (int k"):]
    loop = loop[:loop.index("const int last_now")]
    scores, values = loop.index("tile_wgmma_m64n128k16_f16_f16_f32_z(&s["), loop.index("tile_wgmma_m64n128k16_f16_f16_f32_rs_tb(&o[")
    assert scores < values < loop.index("tile_wgmma_wait_1") < loop.index("exp2f") < loop.index("tile_wgmma_wait_0") < loop.rindex("p[")


def test_a_mask_is_asked_for_once_a_tile():
    t = text(kernels.attention(1, 2, 512, 128, True, 128, 128, 2, 256))
    assert re.search(r"if \(bx \* 128 \+ \(k \+ 1\) \* \(-128\) \+ \(-127\) >= 0\) \{", t)
    assert "exp2f" in t and "const int bx = 3 - bx_hw;" in t  # and the longest blocks come first


def test_one_tile_for_both_products_needs_two_stages():
    assert "started before" in reasons(kernels.shared_values(512, 4, 128))
    assert "started before" not in reasons(kernels.shared_values(512, 4, 128, stages=1))


@pytest.mark.parametrize("program, why", [
    (kernels.product(512, 512, 512, disable_tma=True), "disable_tma is given"),
    (kernels.product(512, 500, 508), "is 1016 bytes, no multiple of 16"),
    (kernels.product(512, 512, 512, threads=64, block_M=64), "not a row of whole warpgroups"),
], ids=["asked", "stride", "threads"])
def test_what_the_copy_engine_cannot_do_is_done_as_before_and_the_reason_is_told(program, why):
    t = text(program)
    assert why in reasons(program)
    assert "cp.async.bulk" not in t and ("cp.async" in t or "__syncthreads" in t)


def test_settings_that_forbid_it_are_heeded():
    from tilec.jit import compile

    def made(setting, value):
        return compile(kernels.product(512, 512, 512), target="sm_90a", pass_configs={setting: value}).artifact

    no_engine = made("tl.disable_tma_lower", True)
    assert "cp.async.bulk" not in no_engine.text("cuda") and "pass_configs set tl.disable_tma_lower" in " ".join(map(str, no_engine.decisions()))
    no_warp = made("tl.disable_warp_specialized", True)
    assert "__launch_bounds__(256)" in no_warp.text("cuda") and "pass_configs set tl.disable_warp_specialized" in " ".join(map(str, no_warp.decisions()))
    for setting in ("tl.disable_warp_specialized", "tl.disable_tma_lower"):
        assert "__launch_bounds__(384" in made(setting, False).text("cuda")


def _with_statement(statement):
    @T.prim_func
    def main(A: T.Tensor((512, 512), "float16"), B: T.Tensor((512, 128), "float16"), C: T.Tensor((512, 128), "float32"), L: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=128) as bx:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            if statement == "sync":
                T.sync_threads()
            for k in T.Pipelined(L[bx] if statement == "given" else 8, num_stages=2):
                T.copy(A[bx * 128, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
                if statement == "break" and k == L[0]:
                    break
            T.copy(c, C[bx * 128, 0])
            if statement == "written":
                A[bx, 0] = T.float16(0)

    return main


@pytest.mark.parametrize("statement, why", [("sync", "synchronises itself"), ("break", "leave"), ("written", "writes A too")])
def test_kernels_that_need_all_threads_are_left_alone(statement, why):
    program = _with_statement(statement)
    assert why in reasons(program) and "cp.async.bulk.tensor" not in text(program)


def test_a_number_of_iterations_read_from_a_tensor_is_read_by_both_sides():
    producer, consumer = text(_with_statement("given")).split("if (tx < 128) {")
    assert "L[bx]" in producer and "L[bx]" in consumer and "cp.async.bulk.tensor" in producer


def test_iterations_that_a_mask_leaves_out_count_no_stage():
    producer, consumer = text(kernels.block_sparse(1024, 1024, 1024)).split("if (tx < 128) {")
    for side in (producer[producer.index("for (int k"):], consumer[consumer.index("for (int k"):]):
        asked = side.index("if (mask[")
        assert asked < side.index("k_now") < side.index("tile_mbarrier_wait") < side.rindex("k_phase")
    assert "tile_wgmma_wait_0" in consumer and "tile_wgmma_wait_1" not in consumer  # what the next iteration is, nobody knows


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100a"])
def test_other_chips_are_not_touched(target):
    t = text(kernels.product(1024, 1024, 1024), target)
    assert "cp.async.bulk" not in t and "setmaxnreg" not in t


def test_a_kernel_that_does_not_fit_with_the_ring_is_lowered_without():
    """The tiles fit, the ring's barriers and the staged result do not: today's path, not an error."""
    program = kernels.product(256, 256, 512, block_M=128, block_N=256, block_K=128, stages=2, threads=256, out="float32")
    assert "tile_wgmma" in text(program)


CASES = {
    "product": kernels.product(512, 512, 512), "wide": kernels.product(4096, 4096, 512, block_N=256), "K-major": kernels.product(500, 504, 512, trans_B=True, out="float32"),
    "one warpgroup": kernels.product(512, 512, 512, threads=128), "again": kernels.persistent(1024, 1024, 256), "attention": kernels.attention(1, 2, 256, 64, False),
    "causal": kernels.attention(2, 2, 512, 128, True, 128, 128, 2, 256), "shared values": kernels.shared_values(512, 4, 128),
    "A along M": kernels.product(512, 576, 448, trans_A=True), "columns split": kernels.product(512, 576, 448, policy="FullCol"),
    "narrow": kernels.product(512, 576, 448, block_N=24, trans_B=True), "warps": kernels.product(512, 576, 448, block_M=32, threads=128),
    "bytes": kernels.product(256, 384, 512, dtype="int8", sums="int32", out="int32", trans_B=True, block_K=128),
    "eight bits": kernels.product(256, 384, 512, dtype="float8_e4m3fn", out="float32", trans_B=True, block_K=128),
    "single": kernels.product(256, 128, 256, dtype="float32", out="float32", trans_B=True, block_K=32),
    "three warpgroups": kernels.product(768, 512, 512, block_M=192, threads=384),
}


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
@pytest.mark.parametrize("name", CASES)
def test_the_assembler_keeps_operations_together(name):
    made = artifact(CASES[name])
    compiled = made.cubin()
    assert all(r.spill_bytes == 0 for r in compiled.resources.values())
    assert not re.search(r"C75\d\d|serialized", compiled.log), compiled.log


@pytest.mark.parametrize("name", CASES)
def test_every_stage_has_a_text(name):
    made = artifact(CASES[name])
    for stage in ("tile", "legalized", "thread", "cuda", "host", "device"):
        assert made.text(stage).strip() and len(made.line_map(stage)) == len(made.text(stage).splitlines()), stage


def test_explain_prints_decisions(tmp_path, capsys):
    from tile_lsp.cli.main import main

    path = tmp_path / "kernel.py"
    path.write_text("""import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((512, 512), "float16"), C: T.Tensor((512, 512), "float16")):
    with T.Kernel(4, threads=128) as bx:
        a = T.alloc_shared((128, 64), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(8, num_stages=2):
            T.copy(A[bx * 128, k * 64], a)
            T.gemm(a, a, c, transpose_B=True)
        T.copy(c, C[bx * 128, 0])
""")
    assert main(["lower", str(path), "--target", "sm_90a", "--explain"]) == 0
    out = capsys.readouterr().out
    assert "line 10: copy to a: bulk tensor copy (TMA) by the copying warp" in out
    assert "line 11: T.gemm: wgmma m64n128k16" in out
