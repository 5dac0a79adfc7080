"""Registers of a specialised kernel: an exchange never asks for more than the block was launched with."""
from __future__ import annotations

import pytest
from tilec.transform.specialise.registers import share_registers

CAPACITY = 227 * 1024


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("shared", [1024, 60 * 1024, 110 * 1024, 200 * 1024])
@pytest.mark.parametrize("fragments", [8, 64, 128, 250])
def test_the_exchange_adds_up(groups, shared, fragments):
    made = share_registers(groups, shared, CAPACITY, fragments)
    entry = min(65536 // (made.blocks * (groups + 1) * 128) // 8 * 8, 255)
    assert made.blocks >= 1 and made.blocks * (shared + 1024) <= CAPACITY or made.blocks == 1
    if made.computing is not None:
        assert made.computing * groups + 24 <= entry * (groups + 1) and 24 < entry < made.computing <= 240 and made.computing % 8 == 0


def test_known_figures():
    assert share_registers(2, 200 * 1024, CAPACITY, 128).computing == 240  # of 168
    assert share_registers(3, 200 * 1024, CAPACITY, 128).computing == 160  # of 128
    two = share_registers(1, 90 * 1024, CAPACITY, 128)
    assert (two.blocks, two.computing) == (2, 232)
    assert share_registers(1, 200 * 1024, CAPACITY, 128).computing is None  # 255 for everybody
    assert share_registers(2, 50 * 1024, CAPACITY, 64, wanted=2).blocks == 2
