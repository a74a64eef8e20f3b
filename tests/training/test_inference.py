"""Inference in threads gives the same results as without threads, and keeps no graph."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.backend.blas import blas_threads
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models import VisionTransformer
from minitorch_attn.training.inference import forward_in_threads

SIZES = dict(
    image_size=8, patch_size=2, in_channels=1, embed_dim=12, num_heads=3, num_layers=2,
    num_classes=5,
)  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2, 3, 11])
def test_equals_the_whole_batch(threads, make, device):
    mt.manual_seed(0)
    model = VisionTransformer(**SIZES).double().eval().to(device)
    images = make(7, 1, 8, 8)
    before = blas_threads()
    got = forward_in_threads(model, images, threads)
    np.testing.assert_allclose(got.numpy(), model(images).numpy(), atol=1e-14)
    assert not got.requires_grad and blas_threads() == before and mt.is_grad_enabled()


def test_tuples_and_dicts(make):
    x, y = make(5, 3), make(5, 2)

    def function(pair):
        return {"sum": pair[0].sum(1), "both": (pair[0] * 2, [pair[1]])}

    got = forward_in_threads(function, (x, y))
    np.testing.assert_array_equal(got["both"][0].numpy(), 2 * x.numpy())
    np.testing.assert_array_equal(got["both"][1][0].numpy(), y.numpy())
    np.testing.assert_allclose(got["sum"].numpy(), x.numpy().sum(1))


def test_errors_come_out(make):
    def broken(part):
        if part.shape[0] == 2:
            raise ValueError("the second part")
        return part

    with pytest.raises(ValueError, match="the second part"):
        forward_in_threads(broken, make(5, 3))
    with pytest.raises(ArgumentError, match="cannot be joined"):
        forward_in_threads(lambda part: 3, make(5, 3))
    with pytest.raises(ArgumentError, match="threads must be at least 1"):
        forward_in_threads(lambda part: part, make(5, 3), threads=0)
