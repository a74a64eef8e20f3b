"""Products by cuBLAS equal NumPy's in every layout, with one call and no copy where BLAS allows."""

import numpy as np
import pytest
from backend.test_product_layout import CASES
from numpy.testing import assert_allclose

from minitorch_attn.backend import cublas, from_host, matmul, to_host

pytestmark = pytest.mark.gpu

TOLERANCES = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-13}


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def like(cupy, x, dtype, misaligned=False):
    """Copy an array to the device with the same strides, in elements."""
    steps = [step // x.itemsize for step in x.strides]
    reach = sum((size - 1) * abs(step) for size, step in zip(x.shape, steps, strict=True))
    low = sum((size - 1) * min(step, 0) for size, step in zip(x.shape, steps, strict=True))
    size = np.dtype(dtype).itemsize
    memory = cupy.full(reach + 1 + misaligned, np.nan, dtype)
    moved = cupy.ndarray(
        x.shape, dtype, memory.data + size * (misaligned - low),
        strides=tuple(step * size for step in steps),
    )  # fmt: skip
    for index in np.ndindex(*x.shape[:-1]):
        moved[index] = from_host(x[index].astype(dtype), "cuda")
    return moved


def counted(work):
    """Return the result of some work, and the numbers of its calls, launches and copies."""
    cupysim = pytest.importorskip("cupysim")
    cupysim.reset()
    result = work()
    found = {kind: calls for kind, (calls, _) in cupysim.summary().items()}
    return result, found.get("cublas", 0), found.get("launch", 0), found.get("memcpy DtoD", 0)


@pytest.mark.parametrize("misaligned", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", CASES)
def test_equals_numpy_in_every_layout(cupy, name, dtype, misaligned):
    a, b, copies, calls = CASES[name]
    x, y = (like(cupy, array, dtype, misaligned) for array in (a, b))
    product, products, launches, moved = counted(lambda: matmul(x, y))
    assert_allclose(to_host(product), a @ b, atol=20 * TOLERANCES[dtype])
    wide = to_host(x).astype("d") @ to_host(y).astype("d")
    assert_allclose(to_host(product), wide, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    assert product.dtype == dtype and product.flags.c_contiguous
    assert (products, launches + moved) == (calls, sum(copies))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shapes", [
    ((0, 3), (3, 2)), ((2, 3), (3, 0)), ((2, 0), (0, 3)), ((0, 2, 3), (3, 5)), ((2, 2), (0, 2, 1)),
    ((1, 2), (2, 1)), ((2, 1), (1, 2)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)),
    ((2, 5, 3), (3,)), ((3,), (2, 3, 5)),
])  # fmt: skip
def test_small_and_empty_and_one_dimensional(cupy, rng, shapes, dtype):
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    product = matmul(from_host(a, "cuda"), from_host(b, "cuda"))
    expected = a.astype("d") @ b.astype("d")
    assert product.shape == np.shape(expected) and product.dtype == dtype
    assert_allclose(to_host(product), expected, atol=TOLERANCES[dtype] * 5)


def test_other_dtypes_and_wrong_shapes_are_left_to_cupy(cupy):
    a = cupy.arange(6).reshape(2, 3)
    assert_allclose(to_host(matmul(a, a.T)), [[5, 14], [14, 50]])
    mixed = matmul(a.astype("f"), a.T.astype("d"))
    assert mixed.dtype == "float64" and to_host(mixed)[1, 1] == 50
    for shape in [(2, 4), (5, 2, 2), (4,)]:
        with pytest.raises(ValueError):
            matmul(cupy.ones((3, 2, 3)), cupy.ones(shape))


def test_sums_of_float16_are_in_float32(cupy):
    ones = cupy.ones((1, 4096), "float16")
    assert to_host(matmul(ones, ones.T))[0, 0] == 4096  # adding in float16 would stop at 2048


def test_without_the_library_cupy_computes_the_product(cupy, rng, monkeypatch):
    a, b = (rng.standard_normal((2, 3, 3)) for _ in range(2))
    monkeypatch.setattr(cublas, "library", lambda: None)
    product = matmul(from_host(a, "cuda"), from_host(b, "cuda").swapaxes(1, 2))
    assert_allclose(to_host(product), a @ b.swapaxes(1, 2))


def test_the_stream_and_its_workspace_follow_the_current_stream(cupy, monkeypatch):
    calls, library = [], cublas.library()
    memory = []
    monkeypatch.setattr(
        library, "_set_workspace",
        lambda handle, address, size: calls.append((size, address)) or memory.append(address) or 0,
    )  # fmt: skip
    monkeypatch.setattr(library, "_workspaces", {})
    x = cupy.ones((2, 2))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(2):
            matmul(x, x)
        assert len(calls) == 1 and calls[0][0] in (4 << 20, 32 << 20)
        with cupy.cuda.Stream(non_blocking=True):
            matmul(x, x)
        matmul(x, x)  # back on the first stream: set again, the same memory
    assert len(calls) == 3 and calls[2] == calls[0] != calls[1]
    assert stream.ptr
    library._handles.__dict__.clear()  # the next product sets its stream again


def test_tf32_only_where_it_is_allowed(cupy, monkeypatch):
    library, computes = cublas.library(), []
    gemm = library.gemm
    monkeypatch.setattr(library, "gemm", lambda *args: computes.append(args[-2]) or gemm(*args))
    monkeypatch.setattr(cublas.settings, "precision", "highest")
    for allow in (False, True):
        cublas.settings.allow_tf32 = allow
        for dtype in "efd":
            matmul(cupy.ones((2, 2), dtype), cupy.ones((2, 2), dtype))
    assert computes == [68, 68, 70, 68, 77, 70]


def test_a_failed_call_names_the_function(cupy, monkeypatch):
    monkeypatch.setattr(cublas.library(), "gemm", lambda *args: 13)
    with pytest.raises(RuntimeError, match="cublasGemmStridedBatchedEx failed with status 13"):
        matmul(cupy.ones((2, 2)), cupy.ones((2, 2)))
