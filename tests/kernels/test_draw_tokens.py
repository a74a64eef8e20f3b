"""The kernel that draws tokens from scores gives the ids of the composed version, on a GPU."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.generation.sampling import Draw
from minitorch_attn.kernels.draw_tokens import DrawKernel
from minitorch_attn.ops.draw_tokens import draw_tokens

pytestmark = pytest.mark.gpu


def both(scores, levels, temperature=1.0):
    """The ids by the kernel and by the composed version on the host."""
    on_device = mt.tensor(scores, device="cuda").array
    assert DrawKernel.accepts(on_device, levels, temperature)
    found = draw_tokens(on_device, levels, temperature)
    assert found.dtype == np.int64 and found.shape == (len(scores),)
    return found.get(), draw_tokens(scores, levels, temperature)


@pytest.mark.parametrize("n", [1, 2, 31, 33, 256, 257, 1031])
@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_same_ids(rng, rows, n, dtype, temperature):
    scores = rng.normal(0, 2, (rows, n)).astype(dtype)
    for _ in range(5):
        found, expected = both(scores, rng.random((rows, 1)), temperature)
        np.testing.assert_array_equal(found, expected)


def test_every_level_of_a_row(rng):
    scores = rng.normal(0, 1, (1, 5)).astype("float32")
    ids = [both(scores, np.array([[level]])) for level in np.linspace(0, 1, 101)]
    assert all(found == expected for found, expected in ids)
    assert {int(found[0]) for found, _ in ids} == set(range(5))


@pytest.mark.parametrize("level", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("row", [
    [-np.inf, 1.0, -np.inf], [3.0, -np.inf, -np.inf], [0.0] * 300, [-np.inf] * 3, [np.nan, 1.0],
    [1.0, np.nan], [np.inf, 0.0], [0.0, np.inf, np.inf], [-1e30, 1e30], [*[-np.inf] * 600, 2.0],
])  # fmt: skip
def test_impossible_tokens_and_numbers_that_are_not_finite(row, level):
    with np.errstate(invalid="ignore"):
        found, expected = both(np.array([row], "float32"), np.array([[level]]))
    np.testing.assert_array_equal(found, expected)


def test_a_view(rng):
    scores = rng.normal(0, 2, (5, 2, 40))
    on_device = mt.tensor(scores, device="cuda")[:, -1, ::3].array
    levels = rng.random((5, 1))
    expected = draw_tokens(scores[:, -1, ::3], levels, 1.0)
    np.testing.assert_array_equal(draw_tokens(on_device, levels, 1.0).get(), expected)


def test_the_composed_version_on_a_gpu(rng):
    scores, levels = rng.normal(0, 2, (3, 17)).astype("float32"), rng.random((3, 1))
    kernel = kernels.pop(draw_tokens)
    try:
        found = draw_tokens(mt.tensor(scores, device="cuda").array, levels, 0.5).get()
    finally:
        kernels[draw_tokens] = kernel
    np.testing.assert_array_equal(found, draw_tokens(scores, levels, 0.5))


def test_one_launch():
    cupysim = pytest.importorskip("cupysim")
    scores, draw = mt.ones(1, 17, device="cuda"), Draw(0, temperature=0.8)
    for _ in range(2):
        cupysim.reset()
        draw(scores)
    found = cupysim.summary()
    assert found["launch"][0] == 1 and set(found) == {"launch"}
