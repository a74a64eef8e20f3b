"""Cross-entropy kernel against the composed version, on a GPU."""

import itertools

import numpy as np
import pytest
from kernel_checks import assert_kernel_equals_composed, without_kernel

import minitorch_attn as mt
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.nn import functional as F
from minitorch_attn.ops.cross_entropy import CrossEntropy

pytestmark = pytest.mark.gpu
SHAPES = [(1, 1), (2, 1), (1, 2), (3, 2), (5, 31), (7, 32), (2, 257), (1031, 3), (1, 1031)]


def labels_for(shape, device, ignored=True, dtype="int64"):
    rows, classes = shape
    labels = np.random.default_rng(3).integers(0, classes, rows).astype(dtype)
    if ignored:
        labels[1::3] = -100
    return mt.tensor(labels, device=device)


def check(make, device, shape, dtype="float64", weighted=False, **settings):
    x = make(*shape, dtype=dtype, low=-3, high=3)
    weight = None
    if weighted:
        weight = make(shape[1], dtype=dtype, low=0.5, high=2, requires_grad=False)
    labels = labels_for(shape, device)
    assert_kernel_equals_composed(
        lambda x: F.cross_entropy(x, labels, weight, **settings), "CrossEntropy", x
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shapes(make, device, shape, dtype):
    check(make, device, shape, dtype)


@pytest.mark.parametrize(
    "reduction, weighted, smoothing",
    list(itertools.product(["none", "mean", "sum"], [False, True], [0.0, 0.3, 1.0])),
)
def test_settings(make, device, reduction, weighted, smoothing):
    check(make, device, (7, 37), weighted=weighted, reduction=reduction, label_smoothing=smoothing)


def test_more_axes_and_strided_logits(make, device):
    x = make(5, 11, 3, 2)
    labels = labels_for((66, 5), device).reshape(2, 11, 3)
    assert_kernel_equals_composed(
        lambda x: F.cross_entropy(x.permute(3, 0, 1, 2), labels), "CrossEntropy", x
    )


def test_logits_offset_by_one_element(make, device):
    x, labels = make(3 * 7 + 1, dtype="float32"), labels_for((4, 7), device)[1:]
    assert_kernel_equals_composed(
        lambda x: F.cross_entropy(x[1:].reshape(3, 7), labels), "CrossEntropy", x
    )


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8"])
def test_labels_of_other_integer_types(make, device, dtype):
    x, labels = make(5, 7), labels_for((5, 7), device, ignored=False, dtype=dtype)
    assert_kernel_equals_composed(lambda x: F.cross_entropy(x, labels), "CrossEntropy", x)


def test_float16_computes_in_float32(make, device):
    x, labels = make(5, 7, dtype="float16"), labels_for((5, 7), device)
    assert_kernel_equals_composed(lambda x: F.cross_entropy(x, labels), "CrossEntropy", x)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_no_rows_and_only_ignored_rows(make, device, reduction):
    for rows in (0, 3):
        x = make(rows, 5)
        labels = mt.full((rows,), -100, dtype="int64", device=device)
        assert_kernel_equals_composed(
            lambda x, labels=labels: F.cross_entropy(x, labels, reduction=reduction),
            "CrossEntropy", x,
        )  # fmt: skip


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nan_and_infinities_as_composed(device, smoothing):
    inf, nan = np.inf, np.nan
    rows = np.array([
        [0.0, 1.0, -inf], [-inf, 1.0, 2.0], [-inf, -inf, -inf], [1.0, inf, 0.0], [0.0, 1.0, nan],
        [nan, 1.0, 0.0], [nan, 0.0, 1.0], [1e38, -1e38, 3e38], [0.0, 0.0, 0.0],
    ], dtype="float32")  # fmt: skip
    labels = mt.tensor([0, 0, 1, 2, 0, 1, -100, 0, 1], device=device)

    def loss_and_grad():
        x = mt.tensor(rows, requires_grad=True, device=device)
        loss = F.cross_entropy(x, labels, reduction="none", label_smoothing=smoothing)
        loss.backward(mt.ones(9, device=device))
        return loss.detach().numpy(), x.grad.numpy()

    found = loss_and_grad()
    function, kernel = without_kernel("CrossEntropy")
    try:
        expected = loss_and_grad()
    finally:
        kernels[function] = kernel
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_launches_and_no_synchronization(make, device):
    cupysim = pytest.importorskip("cupysim")
    x, labels = make(7, 5, dtype="float32"), labels_for((7, 5), device)
    F.cross_entropy(x, labels).backward()
    settings = {"ignore_index": -100, "label_smoothing": 0.1, "reduction": "mean"}
    one = mt.ones((), device=device)
    with forbid_sync():
        cupysim.reset()
        loss = CrossEntropy.apply(x, labels, None, **settings)
        assert sum(cupysim.launches().values()) == 2
        cupysim.reset()
        mt.autograd.grad(loss, x, one)
    assert sum(cupysim.launches().values()) == 1
    assert not cupysim.summary().get("memset")
