"""Range check of indices: at once on the host, and at the next read from a device."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.backend import from_host
from minitorch_attn.backend.deferred import SLOTS
from minitorch_attn.backend.sync import forbid_sync, sync_count
from minitorch_attn.errors import DTypeError, IndexRangeError
from minitorch_attn.ops.plumbing.range_check import check_range


def check(values, size, dtype="int64", device="cpu", **options):
    index = from_host(np.array(values, dtype=dtype), device)
    check_range(index, size, where="test", name="ids", **options)


def read(device):
    """What makes the host wait for a device, as a training loop does with the loss."""
    return mt.tensor([1.0], device=device).item()


DEVICES = ["cpu", "strict"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint8"])
def test_what_is_in_range_passes(device, dtype):
    check([[0, 4], [2, 3]], 5, dtype, device)
    check([], 0, dtype, device)
    check(4, 5, dtype, device)
    read(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16"])
def test_negative_indices_and_one_allowed_value(device, dtype):
    check([-5, 4], 5, dtype, device, lowest=-5)
    check([-100, 0, 4], 5, dtype, device, allow=-100)
    check([255, 0], 5, dtype, device, allow=255)
    check([-100, -100], 5, dtype, device, allow=-100)
    read(device)


BAD = [
    ([0, 5], {}, "5", "from 0 to 4"),
    ([0, -1], {}, "-1", "from 0 to 4"),
    ([0, -6], {"lowest": -5}, "-6", "from -5 to 4"),
    ([0, 5], {"lowest": -5}, "5", "from -5 to 4"),
    ([-100, -99], {"allow": -100}, "-99", "from 0 to 4"),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16"])
@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_out_of_range_is_named(number, dtype, device):
    values, options, worst, allowed = BAD[number]
    with pytest.raises(IndexRangeError, match="test: ids holds an index out of range") as caught:
        check(values, 5, dtype, device, **options)
        read(device)
    assert f"got       {worst}" in str(caught.value)
    assert f"expected  {allowed}" in str(caught.value)
    if device == "cpu":
        assert "at position (1,)" in str(caught.value)


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_is_in_range_of_an_empty_axis(device):
    with pytest.raises(IndexRangeError, match="no index: the size is 0") as caught:
        check([3, 4], 0, device=device)
    got = "4 at position (1,)" if device == "cpu" else "2 indices"
    assert f"got       {got}" in str(caught.value)


@pytest.mark.parametrize("device", DEVICES)
def test_floats_are_not_indices(device):
    with pytest.raises(DTypeError, match="ids must hold integers"):
        check([0.0], 5, "float32", device)


def test_a_device_is_not_waited_for():
    with forbid_sync():
        check([0, 9], 5, device="strict")
    with pytest.raises(IndexRangeError, match="report errors at the next read"):
        read("strict")
    assert read("strict") == 1.0  # told once


def test_a_read_waits_once_also_after_a_check():
    read("strict")
    before = sync_count()
    read("strict")
    alone = sync_count() - before
    assert alone > 0
    check([0], 5, device="strict")
    before = sync_count()
    read("strict")
    assert sync_count() - before == alone


def test_the_worst_of_many_checks_is_kept():
    for value in (1, 9, 7, 2):
        check([value], 5, device="strict")
    with pytest.raises(IndexRangeError, match="got       9"):
        read("strict")


def test_more_kinds_of_checks_than_slots():
    for size in range(5, 5 + 2 * SLOTS):
        check([4], size, device="strict")
    check([4], 4, device="strict")
    with pytest.raises(IndexRangeError, match="from 0 to 3"):
        read("strict")


def test_full_slots_are_read_before_they_are_forgotten():
    check([9], 5, device="strict")
    with pytest.raises(IndexRangeError, match="got       9"):
        for size in range(100, 100 + SLOTS):
            check([4], size, device="strict")
