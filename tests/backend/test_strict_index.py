"""Indexing a strict array: indices on the device, and random order where a GPU's is undefined."""

import numpy as np
import pytest

from minitorch_attn import backend
from minitorch_attn.backend.deferred import note_worst
from minitorch_attn.backend.sync import StrictError
from minitorch_attn.errors import IndexRangeError

HOST = np.arange(60.0).reshape(3, 4, 5)


@pytest.fixture
def x():
    return backend.from_host(HOST, "strict")


@pytest.mark.parametrize(
    "index",
    [0, -1, (1, 2), (1, 2, 3), slice(1, None), (..., 0), (None, 1), (), ..., np.int64(1),
     (slice(None), 1, slice(0, 3, 2)), (np.int32(1), 2)],
    ids=str,
)  # fmt: skip
def test_basic_indices_are_views(x, index):
    entry = x[index]
    np.testing.assert_array_equal(backend.to_host(entry), HOST[index])
    assert backend.shares_memory(x, entry)
    entry += 100.0
    np.testing.assert_array_equal(backend.to_host(x)[index], HOST[index] + 100)


@pytest.mark.parametrize("index", [[2, 0], ([0, 2], [1, 1]), (slice(None), [3, 0, 0])], ids=str)
def test_index_arrays_copy(x, index):
    xp = backend.array_module(x)

    def move(entry):
        return xp.asarray(entry) if isinstance(entry, list) else entry

    on_device = tuple(move(e) for e in index) if isinstance(index, tuple) else move(index)
    for given in (index, on_device):
        entries = x[given]
        np.testing.assert_array_equal(backend.to_host(entries), HOST[index])
        assert not backend.shares_memory(x, entries)


def test_zero_d_index_array(x):
    xp = backend.array_module(x)
    np.testing.assert_array_equal(backend.to_host(x[xp.asarray(2)]), HOST[2])


@pytest.mark.parametrize(
    "index", [np.array([0]), HOST > 3, (0, np.array([1])), (slice(2), HOST[0, 0] > 1)]
)
def test_host_arrays_are_no_index(x, index):
    with pytest.raises(StrictError, match="index is not on the device"):
        x[index]
    with pytest.raises(StrictError, match="index is not on the device"):
        x[index] = 0.0


def test_an_index_of_another_device(x):
    with pytest.raises(StrictError, match="strict:1 as an index of an array on strict:0"):
        x[backend.from_host(np.array([0]), "strict:1")]


@pytest.mark.parametrize(
    "value", [HOST[0], np.float64(1), [1.0] * 5, np.array(1.0)], ids=lambda v: type(v).__name__
)
def test_host_values_are_not_assigned(x, value):
    xp = backend.array_module(x)
    for index in (0, slice(None), xp.asarray([0, 1]), x > 3):
        with pytest.raises(StrictError, match="Unsupported type"):
            x[index] = value
    np.testing.assert_array_equal(backend.to_host(x), HOST)


def test_indices_out_of_range_raise_instead_of_wrapping(x):
    xp = backend.array_module(x)
    index = xp.asarray([0, 3])
    with pytest.raises(IndexError):
        x[index]
    with pytest.raises(IndexError):
        x[index] = 0.0
    with pytest.raises(IndexError):
        x.take(index, axis=0)
    with pytest.raises(IndexError):
        xp.take(x, index, axis=0)
    with pytest.raises(IndexError):
        xp.take_along_axis(x, xp.full((1, 4, 5), 3), axis=0)
    with pytest.raises(IndexError):
        backend.scatter_add(x, index, x[:2])


def test_a_range_check_that_waits_on_the_device_speaks_first(x):
    xp = backend.array_module(x)
    index = xp.asarray([0, 3])

    def read():
        return x[index]

    def write():
        x[index] = 0.0

    def add():
        backend.scatter_add(x, index, x[:2])

    def take():
        return x.take(index, axis=0)

    def function():
        return xp.take(x, index, axis=0)

    for place in (read, write, add, take, function):

        def question(worst, name=place.__name__):
            return IndexRangeError(f"{name}: index {worst}") if worst > 2 else None

        note_worst(question, index.max().astype("uint64"))
        with pytest.raises(IndexRangeError, match=f"{place.__name__}: index 3"):
            place()
        assert float(x[0, 0, 0]) == 0  # nothing is left to report


def test_assignment(x):
    xp, expected = backend.array_module(x), HOST.copy()
    x[1] = 7.0
    expected[1] = 7.0
    x[:, 2] = x[:, 0]
    expected[:, 2] = expected[:, 0]
    x[x > 50] = -1.0
    expected[expected > 50] = -1.0
    x[xp.asarray([2, 0]), xp.asarray([1, 1])] = x[0, :2]
    expected[[2, 0], [1, 1]] = expected[0, :2].copy()
    x[xp.asarray([0, 2]), 3] = x[None, :1, 0]  # more leading axes than the place has
    expected[[0, 2], 3] = expected[None, :1, 0].copy()
    x[..., 0].T[1] = 5.0  # through a view that is not contiguous
    expected[..., 0].T[1] = 5.0
    np.testing.assert_array_equal(backend.to_host(x), expected)


def winners(write, times=60):
    """Return the values that a repeated write of 1, 2, 3 to one place left there."""
    left = set()
    for _ in range(times):
        target = backend.from_host(np.zeros((2, 3)), "strict")
        write(target, backend.array_module(target))
        left.add(backend.to_host(target)[1, 2])
    return left


def test_chance_decides_between_duplicate_writes():
    def by_index(target, xp):
        target[xp.asarray([1, 1, 1]), xp.asarray([2, 2, 2])] = xp.asarray([1.0, 2.0, 3.0])

    def through_a_transposed_view(target, xp):
        target.T[xp.asarray([2, 2, 2]), 1] = xp.asarray([1.0, 2.0, 3.0])

    def along_axis(target, xp):
        values = xp.asarray([[1.0, 2.0, 3.0]] * 2)
        xp.put_along_axis(target, xp.full((2, 3), 2), values, axis=1)

    for write in (by_index, through_a_transposed_view, along_axis):
        assert winners(write) == {1.0, 2.0, 3.0}


@pytest.mark.parametrize("name", ["scatter_add", "add.at"])
def test_the_order_of_scattered_additions_varies(name):
    rng = np.random.default_rng(1)
    values, results = rng.standard_normal(1000).astype("float32"), set()
    for _ in range(20):
        target = backend.from_host(np.zeros(2, "float32"), "strict")
        xp = backend.array_module(target)
        arguments = (target, xp.zeros(1000, dtype="int64"), backend.from_host(values, "strict"))
        backend.scatter_add(*arguments) if name == "scatter_add" else xp.add.at(*arguments)
        results.add(float(target[0]))
    assert len(results) > 1
    np.testing.assert_allclose(list(results), values.astype("float64").sum(), atol=1e-3)


def test_scatter_methods_compute_what_numpy_computes():
    rng = np.random.default_rng(2)
    index, values = rng.integers(0, 5, 30), rng.integers(-9, 9, (30, 3)).astype("float64")
    for name in ("add", "subtract", "maximum", "minimum"):
        expected = np.zeros((5, 3))
        getattr(np, name).at(expected, index, values)
        target = backend.from_host(np.zeros((5, 3)), "strict")
        xp = backend.array_module(target)
        getattr(xp, name).at(
            target, xp.asarray(index.tolist()), backend.from_host(values, "strict")
        )
        np.testing.assert_array_equal(backend.to_host(target), expected)


def test_scattering_into_a_view_reaches_its_base():
    base = backend.from_host(np.zeros((2, 3)), "strict")
    xp = backend.array_module(base)
    backend.scatter_add(base.T, xp.asarray([2, 2]), xp.ones((2, 2)))
    assert backend.to_host(base).tolist() == [[0, 0, 2], [0, 0, 2]]


def test_atomic_additions_have_few_dtypes():
    for dtype in ("int8", "int16", "bool", "uint8"):
        target = backend.from_host(np.zeros(3, dtype), "strict")
        xp = backend.array_module(target)
        with pytest.raises(TypeError, match="not have an atomic add"):
            xp.add.at(target, xp.asarray([0]), xp.ones(1, dtype=dtype))
