"""Every workload has a title, its engines, and the sizes in its name."""

import importlib

import numpy as np
import pytest

from benchmarks.__main__ import BY_NAME_ONLY, WORKLOADS
from benchmarks.workloads import vit_step, w3, w5, w7
from minitorch_attn.models.swin import Block
from minitorch_attn.ops.windows import relative_position_index, shifted_window_mask


@pytest.mark.parametrize("name", [*WORKLOADS, *BY_NAME_ONLY])
def test_a_workload_says_what_it_is_and_ends_with_the_reference(name):
    module = importlib.import_module(f"benchmarks.workloads.{name}")
    assert module.TITLE
    assert next(iter(module.ENGINES)) == "minitorch_attn"
    assert list(module.ENGINES)[-1] == "torch"


def test_pytorchs_tables_of_swin_are_the_ones_of_this_library():
    window, shift = (w5.WINDOW,) * 2, (w5.SHIFT,) * 2
    assert np.array_equal(w5.relative_index(), relative_position_index(window).numpy())
    mask = shifted_window_mask(w5.SIDE, w5.SIDE, window, shift).numpy()
    assert np.array_equal(w5.shift_mask() == 0, mask)
    assert Block(w5.WIDTH, w5.HEADS, window, shift, 4 * w5.WIDTH).norm1.weight.shape == (96,)


def test_pytorchs_positions_are_the_ones_of_this_library():
    import minitorch_attn as mt

    ours = mt.nn.positional.sinusoidal_positions(w3.LENGTH, w3.WIDTH).numpy()
    np.testing.assert_allclose(w3.positions(), ours, atol=1e-6)


def test_sizes():
    assert w7.TOKENS < w7.SIZES["context"]
    assert vit_step.arrays()[0].shape == (4, 3, 224, 224)
