"""scatter_add equals a plain loop, on every code path and device."""

import numpy as np
import pytest

from minitorch_attn import backend
from minitorch_attn.backend import scatter
from minitorch_attn.errors import DeviceError, IndexRangeError

DEVICES = ("cpu", "strict")


def by_loop(target, index, source):
    """Add row by row, as the definition says."""
    result = target.astype("float64")
    source = np.broadcast_to(source, index.shape + target.shape[1:])
    for place in np.ndindex(index.shape):
        result[index[place]] += source[place]
    return result


def run(device, target, index, source):
    def move(value):
        return backend.from_host(value, device) if isinstance(value, np.ndarray) else value

    index = tuple(move(i) for i in index) if isinstance(index, tuple) else move(index)
    moved = backend.from_host(target.copy(), device)
    assert backend.scatter_add(moved, index, move(source)) is moved
    return backend.to_host(moved)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("rows", "width", "index_shape"),
    [(7, (5,), (11,)), (7, (5,), (3, 4)), (3, (500,), (40,)), (50, (2, 3), (6,)), (4, (), (9,)),
     (5, (3,), ()), (5, (3,), (0,)), (5, (0,), (4,)), (2, (700,), (600,))],
)  # fmt: skip
def test_rows(device, rows, width, index_shape):
    rng = np.random.default_rng(0)
    target = rng.standard_normal((rows, *width))
    index = rng.integers(-rows, rows, index_shape)
    source = rng.standard_normal(index_shape + width)
    result = run(device, target, np.asarray(index), source)
    np.testing.assert_allclose(result, by_loop(target, np.asarray(index), source), atol=1e-12)


def test_both_routes_give_the_same_sums(monkeypatch):
    rng = np.random.default_rng(1)
    index, source = rng.integers(0, 9, 60), rng.integers(-9, 9, (60, 8)).astype("float64")
    expected = by_loop(np.zeros((9, 8)), index, source)
    for worth in (0, 10**9):
        monkeypatch.setattr(scatter, "_ENTRIES_WORTH_A_RUN", worth)
        monkeypatch.setattr(scatter, "_BLOCK", 20)
        np.testing.assert_array_equal(run("cpu", np.zeros((9, 8)), index, source), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_source_is_broadcast(device):
    index = np.array([1, 1, 0])
    np.testing.assert_array_equal(
        run(device, np.zeros((2, 3)), index, np.array([1.0, 2.0, 3.0])), [[1, 2, 3], [2, 4, 6]]
    )


def test_host_result_is_the_same_on_every_run():
    rng = np.random.default_rng(2)
    index, source = rng.integers(0, 3, 4000), rng.standard_normal((4000, 8)).astype("float32")
    results = {run("cpu", np.zeros((3, 8), "float32"), index, source).tobytes() for _ in range(5)}
    assert len(results) == 1


INDICES = {
    "integers": 1,
    "slice": slice(1, 3),
    "mask": np.array([[True, False, True, True], [False, True, False, False], [False] * 4]),
    "tuple": (np.array([0, 2, 0]), np.array([1, 1, 1])),
    "negative tuple": (np.array([-1, 2]), np.array([-4, 0])),
    "tuple with slice": (slice(None), np.array([3, 3, 0])),
    "one axis of two": (np.array([2, 2]),),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", INDICES)
def test_other_indices(device, name, large):
    target = np.zeros((3, 4, 50 if large else 1))
    index = INDICES[name]
    source = np.random.default_rng(0).standard_normal(target[index].shape)
    expected = target.copy()
    np.add.at(expected, index, source)
    np.testing.assert_allclose(run(device, target, index, source), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_dtype_of_the_target_stays(dtype):
    result = run("cpu", np.zeros((3, 2), dtype), np.array([0, 0, 2]), np.ones((3, 2), dtype))
    assert result.dtype == dtype
    assert result.tolist() == [[2, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool", "int64", "float16"])
def test_small_numbers_wrap_as_on_the_host(device, dtype):
    """CUDA cannot add atomically to one or two bytes."""
    target, index = np.array([1, 0, 100]).astype(dtype), np.array([2, 0, 2, 2])
    source = np.array([1, 1, 100, 100]).astype(dtype)
    expected = run("cpu", target, index, source)
    np.testing.assert_array_equal(run(device, target, index, source), expected)
    if dtype == "int8":
        assert expected.tolist() == [2, 0, 45]  # 301 - 256


def test_target_that_is_not_contiguous():
    target = np.zeros((4, 3)).T
    scatter.scatter_add_host(target, np.array([2, 2]), np.ones((2, 4)))
    assert target[2].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("wrong", [[0, 3], [-4, 0]])
def test_out_of_range_changes_nothing(wrong):
    target = np.zeros((3, 2))
    with pytest.raises(IndexRangeError, match="the target has 3 rows"):
        backend.scatter_add(target, np.array(wrong), np.ones((2, 2)))
    assert not target.any()


def test_mixture_is_refused():
    with pytest.raises(DeviceError):
        backend.scatter_add(backend.from_host(np.zeros(3), "strict"), np.array([0]), np.ones(1))
