"""Grid sampling: against a loop over positions, interpolate and hand-worked maps."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.nn import functional as F


def bilinear(image, position):
    """The weighted sum over the elements around a position in elements; zeros lie outside."""
    total = 0.0
    for place in np.ndindex(*image.shape):
        distances = [abs(p - i) for p, i in zip(position, place, strict=True)]
        total += image[place] * math.prod([max(0.0, 1 - d) for d in distances])
    return total


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("space", [(3, 5), (2, 3, 5)])
def test_against_a_loop(space, corners, make):
    x, grid = make(2, 3, *space), make(2, *(3, 2, 1)[: len(space)], len(space), low=-1.5, high=1.5)
    got = F.grid_sample(x, grid, align_corners=corners).detach().numpy()
    values, positions = x.detach().numpy(), grid.detach().numpy()
    for place in np.ndindex(*grid.shape[:-1]):
        at = positions[place][::-1]  # x is along the last axis
        at = [(p + 1) / 2 * (n - 1) if corners else ((p + 1) * n - 1) / 2
              for p, n in zip(at, space, strict=True)]  # fmt: skip
        for channel in range(3):
            want = bilinear(values[place[0], channel], at)
            np.testing.assert_allclose(got[(place[0], channel, *place[1:])], want, atol=1e-12)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_gradients(mode, padding, make):
    x, grid = make(1, 1, 2, 3), make(1, 2, 2, 2, low=-2.2, high=2.2)

    def sample(x, grid):
        return F.grid_sample(x, grid, mode, padding, False)

    assert gradcheck(sample, [x, grid]) and gradgradcheck(sample, [x, grid])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_the_identity_map_of_another_size_is_interpolate(mode, make):
    x = make(2, 3, 5, 7)
    identity = mt.eye(2, 3, dtype=x.dtype, device=x.device).expand(2, 2, 3)
    for corners in (True, False):
        grid = F.affine_grid(identity, (2, 3, 4, 11), align_corners=corners)
        got = F.grid_sample(x, grid, mode, "border", corners).detach().numpy()
        want = F.interpolate(x, (4, 11), mode=mode, align_corners=corners).detach().numpy()
        np.testing.assert_allclose(got, want, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_images_and_half_turns(size, dtype, make, device):
    x = make(1, 2, size, size, dtype=dtype)
    turn = mt.tensor([[[-1.0, 0, 0], [0, -1, 0]]], dtype=dtype, device=device)
    for corners in (True, False):
        grid = F.affine_grid(turn, x.shape, align_corners=corners)
        y = F.grid_sample(x, grid, align_corners=corners)
        assert y.dtype == dtype
        if size > 1 or not corners:
            np.testing.assert_allclose(
                y.detach().numpy(), x.detach().numpy()[:, :, ::-1, ::-1], atol=1e-5
            )


def test_gradient_of_affine_grid(make):
    assert gradcheck(lambda theta: F.affine_grid(theta, (2, 1, 3, 4)), [make(2, 2, 3)])
    assert gradcheck(lambda theta: F.affine_grid(theta, (1, 1, 2, 3, 4)), [make(1, 3, 4)])


def test_wrong_calls(make):
    x, grid = make(2, 3, 4, 5), make(2, 3, 3, 2)
    for call, error in (
        (lambda: F.grid_sample(x, grid, "linear"), ArgumentError),
        (lambda: F.grid_sample(x, grid, padding_mode="mirror"), ArgumentError),
        (lambda: F.grid_sample(make(1, 1, 2, 2, 2), make(1, 1, 1, 1, 3), "bicubic"), ArgumentError),
        (lambda: F.grid_sample(x, make(2, 3, 3, 3)), ShapeError),
        (lambda: F.grid_sample(x, make(1, 3, 3, 2)), ShapeError),
        (lambda: F.grid_sample(make(2, 3, 0, 5), grid), ShapeError),
        (lambda: F.grid_sample(x, make(2, 3, 3, 2, dtype="float32")), DTypeError),
        (lambda: F.affine_grid(make(2, 2, 3), (1, 1, 3, 3)), ShapeError),
        (lambda: F.affine_grid(make(2, 2, 3), (2, 1, 3)), ShapeError),
    ):
        with pytest.raises(error):
            call()
