"""Creation of tensors: sizes, dtypes and fill values, and what is refused."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, MiniTorchError


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_every_way_to_give_a_size(name, device):
    make = getattr(mt, name)
    for size in ((2, 3), [2, 3], mt.tensor([2, 3]), (np.int64(2), 3)):
        assert make(size, device=device).shape == make(size=size, device=device).shape == (2, 3)
    assert make(2, 3).shape == (2, 3) and make().shape == make(()).shape == ()
    assert make(0).shape == (0,) and make(2, 0, 3).shape == (2, 0, 3)
    assert make(2, dtype="float64").dtype == np.float64 and make(2).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mt.ones(-1), "ones: size must not be negative"),
        (lambda: mt.zeros(2, -3), "zeros: size must not be negative"),
        (lambda: mt.ones(2.0), "ones: size must hold integers"),
        (lambda: mt.ones(2, size=(2,)), "ones: the size is given twice"),
        (lambda: mt.zeros("2"), "zeros: size must hold integers"),
        (lambda: mt.zeros(2, dtype=object), "zeros: dtype is unsupported"),
        (lambda: mt.zeros(2, dtype="U3"), "zeros: dtype is unsupported"),
        (lambda: mt.zeros(2, dtype="complex64"), "zeros: dtype is unsupported"),
        (lambda: mt.zeros(2, dtype="float128"), "zeros: dtype is unsupported"),
        (lambda: mt.zeros(10**13), "zeros: a tensor of this size could not be allocated"),
        (lambda: mt.ones(10**30), "ones: a tensor of this size could not be allocated"),
        (lambda: mt.empty([1] * 65), "empty: a tensor of this size could not be allocated"),
        (lambda: mt.arange(10**13), "arange: a tensor of this size could not be allocated"),
        (lambda: mt.linspace(0, 1, 10**13), "linspace: a tensor of this size could not"),
        (lambda: mt.eye(10**7), "eye: a tensor of this size could not be allocated"),
        (lambda: mt.full((2,), None), "full: fill_value is not a number"),
        (lambda: mt.full((2,), "3"), "full: fill_value is not a number"),
        (lambda: mt.full((2,), 300, dtype="int8"), "full: fill_value is out of the range of int8"),
        (lambda: mt.full((2,), 1e39), "full: fill_value is out of the range of float32"),
        (lambda: mt.full((2,), 2**1100, dtype="float64"), "out of the range of float64"),
        (lambda: mt.full_like(mt.tensor([1]), float("nan")), "full_like: .* range of int64"),
        (lambda: mt.full_like(mt.tensor([1]), 2**63), "full_like: .* range of int64"),
        (lambda: mt.arange(0, float("inf")), "arange: step does not lead from start to end"),
        (lambda: mt.arange(0, 3, 0), "arange: step does not lead"),
        (lambda: mt.arange(3, 0), "arange: step does not lead"),
        (lambda: mt.arange("3"), "arange: end is not a number"),
        (lambda: mt.arange(), "arange: end is not a number"),
        (lambda: mt.linspace(0, 1, -1), "linspace: steps must not be negative"),
        (lambda: mt.linspace(0, 1, 2.5), "linspace: steps must hold integers"),
        (lambda: mt.eye(-1), "eye: n must not be negative"),
        (lambda: mt.eye(2, -1), "eye: m must not be negative"),
        (lambda: mt.from_numpy(np.array(["a"])), "from_numpy: dtype is unsupported"),
        (lambda: mt.as_tensor(np.array([1j])), "from_numpy: dtype is unsupported"),
        (lambda: mt.tensor([1], dtype="U3"), "the dtype is unsupported"),
        (lambda: mt.Tensor(1.5), r"Tensor\(\*data\): data is neither"),
        (lambda: mt.Tensor(2, -3), r"Tensor\(\*data\): data is neither"),
    ],
)
def test_what_cannot_be_created_is_refused(call, words):
    with pytest.raises(MiniTorchError, match=words):
        call()


@pytest.mark.parametrize("value", [True, 2, -1.5, np.float64(0.5), np.int8(-3)])
def test_the_type_of_the_fill_value_gives_the_dtype(value, device):
    found = mt.full((2, 3), value, device=device)
    kinds = {bool: "bool", int: "int64", float: "float32"}
    plain = value.item() if hasattr(value, "item") else value
    assert found.dtype == kinds[type(plain)]
    np.testing.assert_array_equal(found.numpy(), np.full((2, 3), plain, found.dtype))


def test_a_tensor_as_fill_value_gives_its_dtype():
    assert mt.full((2,), mt.tensor(3.0, dtype="float64")).dtype == np.float64


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest"),
    [
        ("int8", -128, 127), ("uint8", 0, 255), ("int64", -(2**63), 2**63 - 1),
        ("float16", -65504.0, 65504.0),
    ],
)  # fmt: skip
def test_limits_of_a_dtype_can_be_filled_in(dtype, lowest, highest):
    for value in (lowest, highest):
        assert mt.full((1,), value, dtype=dtype).item() == value


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_hold_infinity_and_nan(dtype):
    x = mt.full((2,), float("inf"), dtype=dtype)
    assert x.tolist() == [float("inf")] * 2 and x.dtype == dtype
    assert np.isnan(mt.full((1,), float("nan"), dtype=dtype).item())


def test_like_another_tensor(device):
    x = mt.tensor([[1, 2, 3]], device=device)
    for name, value in (("zeros_like", 0), ("ones_like", 1)):
        y = getattr(mt, name)(x)
        assert (y.dtype, y.device, y.tolist()) == (x.dtype, x.device, [[value] * 3])
    assert mt.empty_like(x, dtype="float64").dtype == np.float64
    assert mt.full_like(x, 2.7).tolist() == [[2, 2, 2]]  # cut off, as in PyTorch


def test_arange(device):
    assert mt.arange(end=3, device=device).tolist() == [0, 1, 2]
    assert mt.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert mt.arange(2, 2).shape == (0,) and mt.arange(0).dtype == np.int64
    assert mt.arange(0.0, 1.0, 0.25).dtype == np.float32
    assert mt.arange(3, dtype="float64").dtype == np.float64


def test_the_constructor_makes_float32():
    assert mt.Tensor([1, 2]).dtype == mt.Tensor(np.arange(3.0)).dtype == np.float32
    assert mt.Tensor(mt.tensor([1])).dtype == np.int64  # a tensor keeps its dtype
    assert mt.Tensor(2, 3).shape == (2, 3) and mt.Tensor().shape == (0,)
    assert mt.Tensor([[1.0]], requires_grad=True).requires_grad
    with pytest.raises(DTypeError):
        mt.Tensor(["a"])
    with pytest.raises(ArgumentError):
        mt.Tensor([1.0], [2.0])
