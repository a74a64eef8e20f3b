"""NumPy and matplotlib on tensors: conversion, NumPy's functions, operators with arrays, plots."""

import matplotlib
import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import DeviceError, GraphError

matplotlib.use("Agg")

X = mt.tensor([[0.0, 1.5, 2.0], [3.0, -4.0, 5.0]])
A = X.numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (2, 3)])
def test_asarray_gives_the_values_without_a_copy(dtype, shape):
    x = mt.ones(shape, dtype=dtype)
    found = np.asarray(x)
    assert type(found) is np.ndarray and found.dtype == dtype and found.shape == shape
    assert found is x.array or np.shares_memory(found, x.array) or not found.size
    assert not np.shares_memory(np.array(x), x.array)
    assert np.asarray(x, dtype="float16").dtype == np.float16


def test_a_copy_can_be_forbidden_and_demanded():
    assert np.shares_memory(np.asarray(X, copy=False), A)
    assert not np.shares_memory(np.asarray(X, copy=True), A)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(X, dtype="float64", copy=False)


def test_strided_tensors():
    np.testing.assert_array_equal(np.asarray(X.T), A.T)
    np.testing.assert_array_equal(np.asarray(X[:, ::2]), A[:, ::2])


@pytest.mark.parametrize(
    "function",
    [
        np.mean, np.sum, np.max, np.std, np.argmax, np.sort, np.cumsum, np.transpose, np.ravel,
        np.squeeze, np.linalg.norm, np.unique, np.round, np.shape, np.size, np.diff,
        lambda x: np.stack([x, x]), lambda x: np.concatenate((x, x), axis=1),
        lambda x: np.where(x > 1, x, 0), lambda x: np.clip(x, 0, 1), lambda x: np.dot(x, x.T),
        lambda x: np.einsum("ij,kj->ik", x, x), lambda x: np.mean(a=x, axis=0),
        lambda x: np.quantile(x, 0.3), lambda x: np.histogram(x)[0],
        lambda x: np.reshape(x, (3, 2)),
    ],
)  # fmt: skip
def test_functions_of_numpy_compute_with_the_values(function):
    found, expected = function(X), function(A)
    assert type(found) is type(expected)
    for one, other in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_comparisons():
    assert np.allclose(X, X + 1e-9) and not np.allclose(X, X + 1)
    assert np.array_equal(X, A) and np.isclose(X, A).all()
    np.testing.assert_allclose(X, A)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(X, A + 1)


@pytest.mark.parametrize(
    "operation",
    [
        lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b,
        lambda a, b: a @ b.T, lambda a, b: a < b, lambda a, b: a == b,
    ],
)  # fmt: skip
def test_operators_with_an_array_give_a_tensor(operation):
    for found in (operation(X, A), operation(A, X)):
        assert isinstance(found, mt.Tensor)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(operation(X, A), operation(A, A), rtol=1e-6)
        np.testing.assert_allclose(operation(A, X), operation(A, A), rtol=1e-6)


def test_operators_with_an_array_are_recorded():
    x = mt.ones(3, requires_grad=True)
    (np.arange(3, dtype="float32") * x).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 2.0]
    assert (np.float64(2.0) * x).dtype == np.float32


USES = [np.asarray, np.mean, lambda x: np.stack([x, x]), lambda x: np.allclose(x, 1.0)]


@pytest.mark.parametrize("use", USES)
def test_a_tensor_that_requires_grad_is_refused(use):
    with pytest.raises(GraphError, match=r"requires grad(.|\n)*x.detach\(\)"):
        use(mt.ones(3, requires_grad=True))
    use(mt.ones(3, requires_grad=True).detach())


@pytest.mark.parametrize("use", USES)
def test_a_tensor_on_another_device_is_refused(use):
    with pytest.raises(DeviceError, match=r"not on the CPU(.|\n)*x.cpu\(\)"):
        use(mt.ones(3, device="strict"))
    use(mt.ones(3, device="strict").cpu())


def test_matplotlib_draws_tensors():
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3)
    (line,) = axes[0, 0].plot(X[0])
    np.testing.assert_array_equal(line.get_ydata(), A[0])
    image = axes[0, 1].imshow(X)
    np.testing.assert_array_equal(image.get_array(), A)
    counts, _, _ = axes[0, 2].hist(X.reshape(-1), bins=3)
    assert counts.sum() == 6
    axes[1, 0].scatter(X[0], X[1])
    bars = axes[1, 1].bar(X[0], X[1])
    assert [bar.get_height() for bar in bars] == A[1].tolist()
    axes[1, 2].fill_between(X[0], X[1])
    pyplot.close(figure)
    figure, axis = pyplot.subplots()
    with pytest.raises(GraphError, match="requires grad"):
        axis.plot(mt.ones(3, requires_grad=True))
    pyplot.close(figure)
