"""Test cases for operations, and the checks that run on every case."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.gradcheck import gradcheck


class Within(tuple):
    """A shape whose random elements lie between `low` and `high`."""

    def __new__(cls, shape, low, high):
        self = super().__new__(cls, shape)
        self.low, self.high = low, high
        return self


class Leaf:
    """A leaf with values of one's own."""

    def __init__(self, values):
        self.values = np.array(values, dtype="float64")


class Case:
    """One call of an operation beside the same in NumPy.

    Parameters
    ----------
    name : str
    function : callable on Tensors
    reference : callable on NumPy arrays
        Returns what `function` should: an array, or several.
    *inputs : tuple, Leaf or ndarray
        A shape stands for a random leaf in float64, with elements from -1 to 1 or as a `Within`
        says; an array for a constant.
    second : bool
        Whether the second derivative is checked, too.
    """

    def __init__(self, name, function, reference, *inputs, second=True):
        self.name = name
        self.function = function
        self.reference = reference
        self.inputs = inputs
        self.second = second

    def __repr__(self):
        return self.name

    def arrays(self, dtype="float64"):
        """The inputs as NumPy arrays: the same on every call."""
        rng = np.random.default_rng(20170612)
        return [_drawn(rng, given, dtype) for given in self.inputs]

    def tensors(self, device, dtype="float64"):
        """The inputs as Tensors on the device under test."""
        return [
            mt.tensor(array, device=device, requires_grad=not isinstance(given, np.ndarray))
            for array, given in zip(self.arrays(dtype), self.inputs, strict=True)
        ]


def _drawn(rng, given, dtype):
    if isinstance(given, Within):
        return rng.uniform(given.low, given.high, given).astype(dtype)
    if isinstance(given, tuple):
        return rng.uniform(-1, 1, given).astype(dtype)
    return given.values.astype(dtype) if isinstance(given, Leaf) else given


def as_series(value):
    """One output or several, as a tuple."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def check_forward(case, device):
    """The values, shapes and dtypes are those of the reference, and the inputs stay as they are."""
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        arrays, tensors = case.arrays(dtype), case.tensors(device, dtype)
        got = as_series(case.function(*tensors))
        wanted = as_series(case.reference(*arrays))
        assert len(got) == len(wanted)
        for have, want in zip(got, wanted, strict=True):
            want = np.asarray(want)
            assert have.shape == want.shape
            assert have.dtype == want.dtype
            np.testing.assert_allclose(have.numpy(), want, rtol=tolerance, atol=tolerance)
        for tensor, array in zip(tensors, arrays, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), array)


def checks(cases):
    """test_forward, test_gradient, test_second_gradient = checks(CASES)."""

    @pytest.mark.parametrize("case", cases, ids=str)
    def test_forward(case, device):
        check_forward(case, device)

    @pytest.mark.parametrize("case", cases, ids=str)
    def test_gradient(case, device):
        assert gradcheck(case.function, case.tensors(device))

    @pytest.mark.parametrize("case", [c for c in cases if c.second], ids=str)
    def test_second_gradient(case, device):
        assert gradgradcheck(case.function, case.tensors(device))

    return test_forward, test_gradient, test_second_gradient
