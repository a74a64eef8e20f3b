"""Strict array: rejects what CuPy rejects or does at a hidden cost, and nothing else."""

import copy

import numpy as np
import pytest

from minitorch_attn import backend
from minitorch_attn.backend.sync import StrictError
from minitorch_attn.errors import DeviceError, DTypeError

HOST = np.arange(1.0, 13.0).reshape(3, 4)


@pytest.fixture
def x():
    return backend.from_host(HOST, "strict")


def same(strict, expected):
    """Compare with NumPy's result: values, dtype, shape, and never a NumPy scalar."""
    assert type(strict).__name__ == "StrictArray0"
    host = backend.to_host(strict)
    assert host.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(host, expected)


IMPLICIT = {
    "asarray": np.asarray,
    "array": np.array,
    "array of two": lambda x: np.array([x, x]),
    "ascontiguousarray": np.ascontiguousarray,
    "exp": np.exp,
    "sum": np.sum,
    "maximum": lambda x: np.maximum(x, 0),
    "concatenate": lambda x: np.concatenate([x, x]),
    "stack": lambda x: np.stack([x, x]),
    "zeros_like": np.zeros_like,
    "where": lambda x: np.where(x > 0, x, 0),
    "dot": lambda x: np.dot(HOST, x.T),
    "method dot": lambda x: HOST.dot(x.T),
    "einsum": lambda x: np.einsum("ij->i", x),
    "norm": np.linalg.norm,
    "result_type": np.result_type,
    "float32": lambda x: np.float32(x.sum()),
    "full": lambda x: np.full(2, x.sum()),
    "copyto": lambda x: np.copyto(HOST.copy(), x),
    "assignment": lambda x: HOST.copy().__setitem__(slice(None), x),
    "index": lambda x: HOST[x > 0],
    "out": lambda x: np.exp(HOST, out=x),
}


@pytest.mark.parametrize("name", IMPLICIT)
def test_numpy_cannot_look_inside(x, name):
    with pytest.raises(StrictError):
        IMPLICIT[name](x)


def test_no_buffer_and_no_dlpack(x):
    with pytest.raises(TypeError):
        memoryview(x)
    with pytest.raises(AttributeError):
        np.from_dlpack(x)
    for name in ("__array_interface__", "__array_struct__", "__dlpack__", "data", "ctypes"):
        assert not hasattr(x, name), name


OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def add_in_place(a, b):
    a += b
    return a


@pytest.mark.parametrize(
    "other",
    [HOST, np.float32(2), np.float64(2), np.int64(2), np.array(2.0), [1.0, 2.0, 3.0, 4.0], (1.0,)],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("name", [*OPERATORS, "@", "+="])
def test_no_mixture_with_host_values_on_either_side(x, name, other):
    operation = {"@": lambda a, b: a @ b, "+=": add_in_place, **OPERATORS}[name]
    with pytest.raises(StrictError):
        operation(x, other)
    # A list is no array: `list + array` concatenates in no library, `list == array` is the right
    # side's business; NumPy arrays and scalars ask the right side too.
    with pytest.raises(StrictError):
        operation(other if isinstance(other, (list, tuple)) else np.asarray(other)[()], x)


def test_no_mixture_of_strict_devices(x):
    other = backend.from_host(HOST, "strict:1")
    for operation in OPERATORS.values():
        with pytest.raises(DeviceError, match="strict:0 and strict:1"):
            operation(x, other)
    with pytest.raises(DeviceError):
        x[0] = other[0]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_compute_what_numpy_computes(x, name):
    operation = OPERATORS[name]
    same(operation(x, x[:1]), operation(HOST, HOST[:1]))
    same(operation(x, 2.5), operation(HOST, 2.5))
    same(operation(2.5, x), operation(2.5, HOST))
    same(operation(x, True), operation(HOST, True))


def test_more_operators(x):
    same(x @ x.T, HOST @ HOST.T)
    same(-x, -HOST)
    same(abs(-x), HOST)
    mask, host_mask = x > 3, HOST > 3
    same(~mask, ~host_mask)
    same(mask & (x < 9), host_mask & (HOST < 9))
    same(mask | (x < 2), host_mask | (HOST < 2))
    same(mask ^ (x < 9), host_mask ^ (HOST < 9))
    integers = x.astype("int64")
    same(integers << 2, HOST.astype("int64") << 2)
    same(1 << integers, 1 << HOST.astype("int64"))
    same(integers >> 1, HOST.astype("int64") >> 1)


def test_in_place_operators_keep_the_array(x):
    view, expected = x[1], HOST.copy()
    y = x
    y += 1
    expected += 1
    y *= x
    expected *= expected
    y -= x[:1]
    expected -= expected[:1].copy()
    y /= 4
    expected /= 4
    y **= 2
    expected **= 2
    assert y is x
    same(y, expected)
    same(view, expected[1])
    with pytest.raises(TypeError, match="Cannot cast"):
        integers = x.astype("int64")
        integers += 0.5


def test_other_types_get_their_turn(x):
    class Reflecting:
        def __radd__(self, other):
            return "reflected"

    assert x + Reflecting() == "reflected"
    assert (x == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        x + "text"


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "std", "var", "max", "min", "any", "all"])
def test_reductions(x, name, axis, keepdims):
    same(getattr(x, name)(axis=axis, keepdims=keepdims),
         getattr(HOST, name)(axis=axis, keepdims=keepdims))  # fmt: skip


def test_reductions_take_cupys_keywords_only(x):
    same(x.sum(0, dtype="float32"), HOST.sum(0, dtype="float32"))
    same(x.var(ddof=1), HOST.var(ddof=1))
    same(x.argmax(axis=1), HOST.argmax(axis=1))
    out = x[0].copy()
    assert x.sum(axis=0, out=out) is out
    same(out, HOST.sum(0))
    for wrong in ({"where": x > 0}, {"initial": 0.0}):
        with pytest.raises(TypeError, match=r"cupy\.ndarray\.sum takes"):
            x.sum(**wrong)


METHODS = {
    "reshape": lambda a: a.reshape(4, -1),
    "reshape tuple": lambda a: a.reshape((2, 6)),
    "ravel": lambda a: a.T.ravel(),
    "flatten": lambda a: a.flatten(),
    "transpose": lambda a: a.transpose(1, 0),
    "transpose reversed": lambda a: a.transpose(),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "squeeze": lambda a: a[:1].squeeze(0),
    "T": lambda a: a.T,
    "mT": lambda a: a.mT,
    "astype": lambda a: a.astype("float32"),
    "copy": lambda a: a.copy(),
    "view": lambda a: a.view("int64"),
    "cumsum": lambda a: a.cumsum(axis=1),
    "cumprod": lambda a: a.cumprod(axis=0),
    "clip": lambda a: a.clip(2, 5),
    "round": lambda a: (a / 7).round(1),
    "argsort": lambda a: (-a).argsort(axis=0),
    "repeat": lambda a: a.repeat(2, axis=0),
    "trace": lambda a: a.trace(),
    "diagonal": lambda a: a.diagonal(1),
    "dot": lambda a: a.dot(a.T),
    "real": lambda a: a.real,
    "conj": lambda a: a.conj(),
    "searchsorted": lambda a: a[0].searchsorted(a[0]),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(x, name):
    same(METHODS[name](x), METHODS[name](HOST))


def test_methods_that_change_or_take(x):
    y = -x
    y.sort()
    same(y, np.sort(-HOST))
    y.fill(3)
    same(y, np.full_like(HOST, 3))
    xp = backend.array_module(x)
    same(x.take(xp.asarray([2, 0]), axis=0), HOST.take([2, 0], axis=0))
    same(x.nonzero()[1], HOST.nonzero()[1])
    ties = backend.from_host(np.arange(1000) % 2, "strict")
    same(ties.argsort(), np.argsort(np.arange(1000) % 2, kind="stable"))
    for kind in ("quicksort", "heapsort"):
        with pytest.raises(ValueError, match="stable"):
            x.argsort(kind=kind)


def test_attributes_as_of_numpy(x):
    for name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides"):
        assert getattr(x.T, name) == getattr(HOST.T, name)
    assert x.flags.c_contiguous and not x.T.flags.c_contiguous and x.T.flags.f_contiguous
    assert x.base is None and x[1:].base is not None
    assert len(x) == 3
    with pytest.raises(TypeError):
        len(x.sum())


def test_missing_attributes_say_whose_fault(x):
    with pytest.raises(AttributeError, match=r"CuPy does not have 'ndarray\.resize'"):
        x.resize(2)
    with pytest.raises(AttributeError, match="does not support 'ndarray.put', although CuPy does"):
        x.put(0, 1)


def test_copies(x):
    for twin in (copy.copy(x), copy.deepcopy(x), x.copy()):
        assert not backend.shares_memory(x, twin)
        same(twin, HOST)
    assert x.astype("float64", copy=False) is x
    assert x.astype("float64") is not x


def test_not_an_index_nor_a_key(x):
    with pytest.raises(TypeError):
        range(x.astype("int64")[0, 0])
    with pytest.raises(TypeError, match="unhashable"):
        {x: 1}  # noqa: B018
    with pytest.raises(ValueError):
        bool(x)


def test_only_gpu_dtypes_travel():
    for dtype in ("U3", "O", "M8[s]", np.longdouble):
        with pytest.raises(DTypeError, match="dtype is unsupported"):
            backend.from_host(np.zeros(2, dtype), "strict")


def test_there_are_two_strict_devices():
    with pytest.raises(DeviceError, match="'strict:0' or 'strict:1'"):
        backend.from_host(HOST, "strict:2")
