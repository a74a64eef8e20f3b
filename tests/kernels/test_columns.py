"""Column sums on a GPU, against NumPy."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu
SHAPES = [
    (0, 3), (3, 0), (1, 1), (1, 7), (2, 8), (3, 9), (127, 5), (129, 33), (1031, 2), (5, 4096),
    (3, 4099),
]  # fmt: skip


def column_sum(x):
    from minitorch_attn.kernels.columns import column_sum

    return column_sum(x)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sums(make, shape, dtype):
    x = make(*shape, dtype=dtype)
    found, expected = column_sum(x.array).get(), x.numpy().astype("float64").sum(0)
    assert found.dtype == dtype
    bound = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(found, expected, rtol=bound, atol=30 * bound)


def test_any_steps_between_rows_and_columns(make):
    x = make(7, 5, 3)
    for view in (x.array[:, 1], x.array[:, :, 2].T, x.array[::-1, ::2, 1]):
        np.testing.assert_allclose(column_sum(view).get(), view.get().sum(0), rtol=1e-12)
    repeated = make(1, 1).expand(5, 3)
    np.testing.assert_allclose(column_sum(repeated.array).get(), repeated.numpy().sum(0))


def test_nan_and_infinities_stay_in_their_column(device):
    import minitorch_attn as mt

    x = np.ones((70, 5), "float32")
    x[69, 1], x[3, 2], x[0, 4], x[64, 4] = np.nan, np.inf, np.inf, -np.inf
    expected = [70, np.nan, np.inf, 70, np.nan]
    np.testing.assert_array_equal(column_sum(mt.tensor(x, device=device).array).get(), expected)


def test_sums_are_equal_bit_for_bit_in_every_run(make):
    x = make(1031, 37, dtype="float32").array
    first = column_sum(x).get()
    assert all((column_sum(x).get() == first).all() for _ in range(3))
