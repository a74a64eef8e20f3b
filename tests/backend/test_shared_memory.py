"""Shared memory: a forked child and its parent see each other's changes."""

import os

import numpy as np
import pytest

from minitorch_attn.backend.shared_memory import is_shared, shared_arrays

FORMS = [((2, 3), "float32"), ((), "float64"), ((0, 2), "int64"), ((5,), "bool"), ((7,), "float16")]


def test_shapes_dtypes_and_zeros():
    arrays = shared_arrays(FORMS)
    for array, (shape, dtype) in zip(arrays, FORMS, strict=True):
        assert array.shape == shape and array.dtype == dtype and not array.any()
        assert array.flags.c_contiguous and array.flags.writeable
        assert array.size == 0 or array.ctypes.data % 64 == 0


def test_arrays_do_not_overlap():
    arrays = shared_arrays([((3,), "uint8")] * 4)
    for number, array in enumerate(arrays):
        array[...] = number + 1
    assert [array.tolist() for array in arrays] == [[n] * 3 for n in (1, 2, 3, 4)]
    assert shared_arrays([]) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_and_its_parent_see_changes():
    (shared,), private = shared_arrays([((3,), "int64")]), np.zeros(3)
    ready, told = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        shared[1] = private[1] = 5
        os.write(ready[1], b"x")
        os.read(told[0], 1)
        os._exit(int(shared[2]))
    os.read(ready[0], 1)
    assert shared.tolist() == [0, 5, 0] and not private.any()
    shared[2] = 9
    os.write(told[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_views_are_shared_and_copies_are_not():
    array, empty = shared_arrays([((4, 6), "float32"), ((0,), "float32")])
    assert all(map(is_shared, (array, array[1:, ::2], array.T, array.view("int32"), empty)))
    ours = np.zeros(3)
    others = array.copy(), array + 1, ours, ours[1:], np.frombuffer(bytearray(8))
    assert not any(map(is_shared, others))
