"""The kernel of rotary position embeddings against the composed version, on a GPU."""

import pytest
from kernel_checks import assert_kernel_equals_composed

import minitorch_attn as mt

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("shape", "angles"),
    [((1, 2), (1, 1)), ((2, 2), (2, 1)), ((3, 5, 14), (5, 7)), ((2, 3, 5, 6), (2, 1, 5, 3)),
     ((7, 10), (1, 1)), ((0, 3, 4), (3, 2)), ((2, 3, 0), (3, 0)),
     ((1, 2, 131, 34), (1, 1, 131, 17)), ((2, 1, 3, 2), (2, 1, 1, 1))],
)  # fmt: skip
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rotary(make, shape, angles, interleaved, dtype):
    angle = make(*angles, low=-3, high=3, requires_grad=False)
    cos, sin = mt.cos(angle).to(dtype), mt.sin(angle).to(dtype)
    assert_kernel_equals_composed(
        lambda x: mt.apply_rotary(x, cos, sin, interleaved=interleaved), "Rotary",
        make(*shape, dtype=dtype),
    )  # fmt: skip


@pytest.mark.parametrize("interleaved", [True, False])
def test_views(make, interleaved):
    """Heads split as in an attention layer, every second feature, and transposed angles."""
    angle = make(3, 5, low=-3, high=3, requires_grad=False).T
    cos, sin = mt.cos(angle), mt.sin(angle)
    wide = mt.stack((cos, cos), -1)[..., 0]  # a step of 2

    def call(x):
        heads = x.transpose(1, 2)[..., ::2]  # (batch, heads, token, head_dim)
        return mt.apply_rotary(heads, wide, sin, interleaved=interleaved)

    assert_kernel_equals_composed(call, "Rotary", make(2, 5, 3, 12))


def test_one_launch_each_way():
    cupysim = pytest.importorskip("cupysim")
    x = mt.ones(3, 2, 4, 6, device="cuda", requires_grad=True)
    cos = sin = mt.ones(4, 3, device="cuda")
    gradient = mt.ones(2, 3, 4, 6, device="cuda")
    for _ in range(2):
        cupysim.reset()
        y = mt.apply_rotary(x, cos, sin)
        mt.autograd.grad(y, x, gradient.transpose(0, 1))
    assert cupysim.summary()["launch"][0] == 2
