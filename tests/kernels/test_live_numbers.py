"""The numbers of a CUDA graph arrive on the device bit for bit."""

import numpy as np
import pytest

from minitorch_attn.backend import from_host, to_host
from minitorch_attn.backend.graph_capture import LENGTH, write_numbers

pytestmark = pytest.mark.gpu


def test_the_kernel_writes_every_bit(rng):
    bits = rng.integers(0, 2**64, LENGTH, np.uint64)
    board = from_host(np.zeros(LENGTH), "cuda")
    write_numbers(board, bits.view(np.float64))
    np.testing.assert_array_equal(to_host(board.view("uint64")), bits)


def test_it_equals_the_composed_version(rng):
    numbers = rng.standard_normal(LENGTH)
    boards = [from_host(np.zeros(LENGTH), "cuda") for _ in range(2)]
    write_numbers(boards[0], numbers)
    write_numbers.__wrapped__(boards[1], numbers)
    np.testing.assert_array_equal(*map(to_host, boards))
