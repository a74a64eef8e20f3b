"""Module of the strict device: CuPy's names and keywords; arrays in and arrays out."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import backend
from minitorch_attn.backend import strict_names
from minitorch_attn.backend.sync import StrictError

HOST = np.arange(1.0, 13.0).reshape(3, 4)


@pytest.fixture
def x():
    return backend.from_host(HOST, "strict")


@pytest.fixture
def xp():
    return backend.module_for("strict")


def same(strict, expected):
    """Compare results, which may be tuples or lists of arrays."""
    if isinstance(expected, (tuple, list)):
        assert len(strict) == len(expected)
        for a, b in zip(strict, expected, strict=True):
            same(a, b)
        return
    assert type(strict).__name__ == "StrictArray0", type(strict)
    assert strict.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(backend.to_host(strict), expected)


FUNCTIONS = {
    "exp": lambda m, a: m.exp(a / 9),
    "exp of a number": lambda m, a: m.exp(1.5),
    "maximum": lambda m, a: m.maximum(a, 5),
    "where": lambda m, a: m.where(a > 4, a, 0.0),
    "concatenate": lambda m, a: m.concatenate([a, a[:1]], axis=0),
    "stack": lambda m, a: m.stack((a, a), axis=-1),
    "split": lambda m, a: m.split(a, 2, axis=1),
    "sum": lambda m, a: m.sum(a, axis=1, keepdims=True),
    "max to 0-d": lambda m, a: m.max(a),
    "allclose": lambda m, a: m.allclose(a, a),
    "array_equal": lambda m, a: m.array_equal(a, a + 1),
    "count_nonzero": lambda m, a: m.count_nonzero(a > 2),
    "modf": lambda m, a: m.modf(a / 2),
    "divmod": lambda m, a: m.divmod(a, 5),
    "frexp": lambda m, a: m.frexp(a),
    "arange": lambda m, a: m.arange(2, 9, 3),
    "zeros": lambda m, a: m.zeros((2, 3), dtype=m.float32),
    "full": lambda m, a: m.full((2,), 7),
    "zeros_like": lambda m, a: m.zeros_like(a),
    "array": lambda m, a: m.array([[1, 2], [3, 4]]),
    "einsum": lambda m, a: m.einsum("ij,kj->ik", a, a),
    "matmul": lambda m, a: m.matmul(a, a.T),
    "tensordot": lambda m, a: m.tensordot(a, a, axes=([1], [1])),
    "meshgrid": lambda m, a: m.meshgrid(a[0], a[:, 0]),
    "triu": lambda m, a: m.triu(a, 1),
    "pad": lambda m, a: m.pad(a, ((0, 1), (2, 0))),
    "take_along_axis": lambda m, a: m.take_along_axis(a, m.asarray([[0], [1], [3]]), axis=1),
    "argsort": lambda m, a: m.argsort(-a, axis=1),
    "cumsum": lambda m, a: m.cumsum(a, axis=0),
    "unique": lambda m, a: m.unique(a % 3, return_counts=True),
    "add.reduce": lambda m, a: m.add.reduce(a, axis=1),
    "multiply.outer": lambda m, a: m.multiply.outer(a[0], a[1]),
    "linalg.norm": lambda m, a: m.linalg.norm(a, axis=1),
    "fft.fft": lambda m, a: m.fft.fft(a, axis=0).real,
    "linalg.qr": lambda m, a: m.linalg.qr(a),
    "windows": lambda m, a: m.lib.stride_tricks.sliding_window_view(a, 2, axis=1),
    "ix_": lambda m, a: a[m.ix_(m.asarray([0, 2]), m.asarray([1]))],
    "isnan any": lambda m, a: m.isnan(a).any(),
    "repeat": lambda m, a: m.repeat(a, 2, axis=1),
    "moveaxis": lambda m, a: m.moveaxis(a, 0, 1),
    "sizes from NumPy": lambda m, a: m.zeros((np.int64(2), 3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_return_device_arrays(x, xp, name):
    same(FUNCTIONS[name](xp, x), FUNCTIONS[name](np, HOST))


def test_put_along_axis(x, xp):
    expected = HOST.copy()
    np.put_along_axis(expected, np.array([[3], [0], [1]]), -1.0, axis=1)
    xp.put_along_axis(x, xp.asarray([[3], [0], [1]]), -1.0, axis=1)
    same(x, expected)


def test_out(x, xp):
    out = xp.zeros_like(x)
    assert xp.exp(x, out=out) is out
    same(out, np.exp(HOST))
    assert xp.add(x, x, out) is out
    same(out, HOST + HOST)
    assert xp.sum(x, axis=0, out=out[0]) is not None
    same(out[0], HOST.sum(0))
    fraction, whole = xp.zeros_like(x), xp.zeros_like(x)
    assert xp.modf(x / 2, out=(fraction, whole))[1] is whole
    same(whole, np.modf(HOST / 2)[1])
    assert xp.multiply(x, 2.0, out=out, where=x > 3) is out


def test_answers_that_are_no_arrays(x, xp):
    assert xp.result_type(x, 1.0) == np.float64
    assert xp.shape(x) == (3, 4) and xp.ndim(x) == 2 and xp.size(x) == 12
    assert xp.finfo(x.dtype).eps == np.finfo("f8").eps
    assert xp.float32 is np.float32 and xp.newaxis is None and xp.inf == np.inf
    assert xp.asarray(x) is x and xp.ascontiguousarray(x) is x
    assert xp.asarray(x.T) is not x
    assert isinstance(x, xp.ndarray)
    assert not isinstance(HOST, xp.ndarray)


MIXTURES = {
    "ufunc": lambda xp, x: xp.add(x, HOST),
    "ufunc scalar": lambda xp, x: xp.add(x, np.float32(2)),
    "ufunc integer scalar": lambda xp, x: xp.add(x, np.int64(2)),
    "ufunc list": lambda xp, x: xp.exp([1.0, 2.0]),
    "ufunc out": lambda xp, x: xp.exp(x, out=HOST.copy()),
    "ufunc where": lambda xp, x: xp.exp(x, where=HOST > 1),
    "function": lambda xp, x: xp.where(x > 0, HOST, 0.0),
    "sequence": lambda xp, x: xp.concatenate([x, HOST]),
    "keyword": lambda xp, x: xp.take(x, indices=np.array([0])),
    "asarray": lambda xp, x: xp.asarray(HOST),
    "array": lambda xp, x: xp.array([HOST[0], HOST[1]]),
    "fill value": lambda xp, x: xp.full(2, np.float32(1)),
    "sum of a list": lambda xp, x: xp.sum([1.0, 2.0]),
    "sum of a host array": lambda xp, x: xp.sum(HOST),
    "sum of a number": lambda xp, x: xp.sum(1.0),
    "other device": lambda xp, x: xp.add(x, backend.from_host(HOST, "strict:1")),
    "other module": lambda xp, x: backend.module_for("strict:1").exp(x),
    "other module sum": lambda xp, x: backend.module_for("strict:1").sum(x),
    "at": lambda xp, x: xp.add.at(x, xp.asarray([0]), HOST[:1]),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures_are_refused(x, xp, name):
    with pytest.raises(StrictError):
        MIXTURES[name](xp, x)


def test_foreign_objects_are_refused(x, xp):
    class Foreign:
        __array_ufunc__ = None

    with pytest.raises(StrictError, match=r"tensor\.array"):
        xp.concatenate([x, Foreign()])


@pytest.mark.parametrize(
    "name", ["block", "errstate", "vecdot", "unstack", "nditer", "geomspace", "linalg.vector_norm"]
)
def test_names_that_cupy_lacks(xp, name):
    if "." in name:
        xp, name = xp.linalg, name.split(".")[1]
    assert not hasattr(xp, name)
    with pytest.raises(AttributeError, match=f"CuPy does not have '.*{name}'"):
        getattr(xp, name)


@pytest.mark.parametrize("name", ["random", "save", "histogram", "cuda"])
def test_names_of_cupy_that_are_not_offered(xp, name):
    with pytest.raises(AttributeError, match="although CuPy does"):
        getattr(xp, name)


def test_ufunc_methods_that_cupy_lacks(x, xp):
    for ufunc, method in [("maximum", "reduce"), ("multiply", "at"), ("exp", "at")]:
        with pytest.raises(AttributeError, match="CuPy does not have"):
            getattr(getattr(xp, ufunc), method)
    with pytest.raises(TypeError):
        xp.add.reduce(x, initial=1.0)


@pytest.mark.parametrize(
    ("name", "keyword"),
    [("sum", "where"), ("max", "initial"), ("zeros", "device"), ("var", "correction"),
     ("take", "mode"), ("sort", "stable"), ("count_nonzero", "keepdims")],
)  # fmt: skip
def test_keywords_that_cupy_lacks(x, xp, name, keyword):
    with pytest.raises(TypeError, match=f"cupy.{name} does not accept \\['{keyword}'\\]"):
        getattr(xp, name)(x, **{keyword: None})


def test_every_offered_name_exists_in_numpy(xp):
    offered = strict_names.UFUNCS | strict_names.FUNCTIONS | strict_names.SAME_AS_NUMPY
    missing = [name for name in sorted(offered) if not hasattr(np, name)]
    # NumPy 2.1 brought these.
    assert set(missing) <= {"cumulative_prod", "cumulative_sum"}
    for name in offered - set(missing):
        assert hasattr(xp, name)
    assert not offered & strict_names.OF_CUPY_BUT_NOT_HERE
    for name in strict_names.LINALG:
        assert hasattr(xp.linalg, name)
    for name in strict_names.FFT:
        assert hasattr(xp.fft, name)


def test_offered_names_exist_in_cupy(xp):
    cupy = pytest.importorskip("cupy")
    offered = strict_names.UFUNCS | strict_names.FUNCTIONS | strict_names.SAME_AS_NUMPY
    assert [name for name in sorted(offered) if not hasattr(cupy, name)] == []
    assert [name for name in strict_names.LINALG if not hasattr(cupy.linalg, name)] == []
    assert [name for name in strict_names.FFT if not hasattr(cupy.fft, name)] == []


IN_C_ORDER = {
    "operator": lambda m, a: a.T * 2,
    "reflected": lambda m, a: 2 - a.T,
    "comparison": lambda m, a: a.T > 4,
    "unary": lambda m, a: -a.T,
    "ufunc": lambda m, a: m.exp(a.T / 9),
    "two arguments": lambda m, a: m.maximum(a.T, a.T),
    "where": lambda m, a: m.where(a.T > 4, a.T, 0.0),
    "concatenate": lambda m, a: m.concatenate([a.T, a.T]),
    "stack": lambda m, a: m.stack([a.T, a.T]),
    "cumsum": lambda m, a: m.cumsum(a.T, axis=0),
    "clip": lambda m, a: a.T.clip(2, 7),
    "sum": lambda m, a: m.stack([a.T, a.T], axis=2).transpose(1, 2, 0).sum(1),
}
AS_IN_NUMPY = {
    "astype": lambda m, a: a.T.astype("float32"),
    "empty_like": lambda m, a: m.empty_like(a.T),
    "view": lambda m, a: m.broadcast_to(a.T, (4, 3)),
    "transpose": lambda m, a: m.transpose(a),
}


@pytest.mark.parametrize("case", IN_C_ORDER)
def test_results_are_in_c_order_whatever_the_order_of_the_operands(x, xp, case):
    result = IN_C_ORDER[case](xp, x)
    assert result.flags.c_contiguous
    same(result, IN_C_ORDER[case](np, HOST))


@pytest.mark.parametrize("case", AS_IN_NUMPY)
def test_copies_and_views_keep_their_order(x, xp, case):
    assert AS_IN_NUMPY[case](xp, x).strides == AS_IN_NUMPY[case](np, HOST).strides


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*IN_C_ORDER, *AS_IN_NUMPY])
def test_the_order_is_that_of_cupy(x, xp, case):
    call = {**IN_C_ORDER, **AS_IN_NUMPY}[case]
    import cupy

    assert call(xp, x).strides == call(cupy, cupy.asarray(HOST)).strides


def test_a_changed_view_of_a_computed_result():
    """NumPy's `x.T * 1` is in column order, so reshaping its transpose would not copy."""
    y = mt.arange(6.0, device="strict").reshape(2, 3).T * 1
    y.T.reshape(6)[:2].mul_(4)
    assert y.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
