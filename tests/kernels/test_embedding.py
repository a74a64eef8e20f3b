"""The kernel of an embedding's gradient against the composed version, on a GPU."""

import pytest
from kernel_checks import assert_kernel_equals_composed

import minitorch_attn as mt
from minitorch_attn.kernels import embedding
from minitorch_attn.nn import functional as F

pytestmark = pytest.mark.gpu
SHAPES = [((1,), 1, 1), ((2, 3), 5, 1), ((0,), 3, 2), ((7,), 1, 5), ((3, 2), 2, 0),
          ((5, 31), 7, 3), ((300,), 11, 131), ((2, 2, 2), 1031, 2)]  # fmt: skip


@pytest.fixture(params=["looking", "sorting"])
def way(request, monkeypatch):
    """Compute the sums in both ways, whatever the sizes."""
    monkeypatch.setattr(embedding, "FEW", 1 << 40 if request.param == "looking" else -1)


@pytest.mark.parametrize(("places", "rows", "width"), SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 0}, {"scale_grad_by_freq": True}])
def test_row_sums(make, rng, way, places, rows, width, dtype, options):
    weight = make(rows, width, dtype=dtype)
    ids = mt.tensor(rng.integers(0, rows, places), device="cuda")
    if 0 in (*places, rows, width):
        y = F.embedding(ids, weight, **options)
        (grad,) = mt.autograd.grad(y, weight, mt.ones_like(y))
        assert grad.shape == (rows, width) and not grad.numpy().any()
        return
    assert_kernel_equals_composed(
        lambda w: F.embedding(ids, w, **options).sin(), "RowSum", weight, kinds=("forward",)
    )


def test_ids_of_another_dtype_and_strided_gradients(make, rng, way):
    weight = make(7, 5)
    ids = mt.tensor(rng.integers(0, 7, (4, 3)).astype("int32"), device="cuda").T
    assert_kernel_equals_composed(
        lambda w: F.embedding(ids, w).permute(2, 1, 0).sin(), "RowSum", weight, kinds=("forward",)
    )


def test_the_sums_are_equal_in_every_run(make, rng, way):
    weight = make(3, 17, dtype="float32")
    ids = mt.tensor(rng.integers(0, 3, 1000), device="cuda")
    cotangent = make(1000, 17, dtype="float32", requires_grad=False)
    found = [
        mt.autograd.grad(F.embedding(ids, weight), weight, cotangent)[0].numpy().tobytes()
        for _ in range(3)
    ]
    assert len(set(found)) == 1
