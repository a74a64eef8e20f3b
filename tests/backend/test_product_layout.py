"""How BLAS reads the operands of a product: checked by computing products from the plan alone."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from minitorch_attn.backend.product_layout import matrix_layout, merged, plan


def planned(a, b):
    steps = [tuple(step // x.itemsize for step in x.strides) for x in (a, b)]
    return plan(a.shape, steps[0], b.shape, steps[1])


def read(x, start, rows, columns, layout, step, count):
    """Read a batch of matrices as BLAS does: from a start, with one leading dimension and step."""
    transposed, ld = layout
    within = (1, ld) if transposed else (ld, 1)
    strides = [size * x.itemsize for size in (step, *within)]
    moved = as_strided(x, (start + 1,), (x.itemsize,))[start:]
    return as_strided(moved, (count, rows, columns), strides)


def computed(a, b):
    """Compute a product as the plan says, with copies where it asks for them."""
    found = planned(a, b)
    if any(found.copies):
        both = zip((a, b), found.copies, strict=True)
        a, b = (np.ascontiguousarray(x) if copy else x for x, copy in both)
        found = planned(a, b)
        assert not any(found.copies)
    n, m, k = found.sizes
    out = np.full(found.shape, np.nan)
    for a_start, b_start, out_start in found.starts:
        left = read(a, a_start, n, k, found.layouts[0], found.steps[0], found.count)
        right = read(b, b_start, k, m, found.layouts[1], found.steps[1], found.count)
        to = read(out, out_start, n, m, (False, m), found.steps[2], found.count)
        to[...] = left @ right
    return out


def heads(rng, batch, tokens, count, dim):
    """Split the heads: (batch, token, head dim) becomes (batch, head, token, dim)."""
    return rng.standard_normal((batch, tokens, count * dim)).reshape(
        batch, tokens, count, dim).swapaxes(1, 2)  # fmt: skip


rng = np.random.default_rng(3)
draw = rng.standard_normal
query, key = heads(rng, 1, 7, 3, 5), heads(rng, 1, 11, 3, 5)
queries, keys = heads(rng, 2, 7, 3, 5), heads(rng, 2, 11, 3, 5)
# name: a, b, copies of a and b, number of calls
CASES = {
    "rows": (draw((3, 5)), draw((5, 7)), (0, 0), 1),
    "a transposed": (draw((5, 3)).T, draw((5, 7)), (0, 0), 1),
    "b transposed": (draw((3, 5)), draw((7, 5)).T, (0, 0), 1),
    "both transposed": (draw((5, 3)).T, draw((7, 5)).T, (0, 0), 1),
    "slices of rows": (draw((3, 11))[:, 2:7], draw((5, 13))[:, 4:11], (0, 0), 1),
    "slices of transposed rows": (draw((5, 13))[:, 2:5].T, draw((11, 5))[2:9].T, (0, 0), 1),
    "every second column": (draw((3, 10))[:, ::2], draw((5, 14))[:, ::2], (1, 1), 1),
    "every second row": (draw((6, 5))[::2], draw((10, 7))[::2], (0, 0), 1),
    "reversed rows": (draw((3, 5))[::-1], draw((5, 7))[:, ::-1], (1, 1), 1),
    "repeated row": (np.broadcast_to(draw(5), (3, 5)), draw((5, 7)), (1, 0), 1),
    "one row": (draw((1, 5)), draw((5, 7)), (0, 0), 1),
    "one column": (draw((3, 5)), draw((5, 1)), (0, 0), 1),
    "one strided row": (draw((5, 4))[:, 1][None], draw((5, 7)), (0, 0), 1),
    "one strided column": (draw((3, 5)), draw((5, 4))[:, 1][:, None], (0, 0), 1),
    "outer product": (draw((3, 1)), draw((1, 7)), (0, 0), 1),
    "one number": (draw((1, 1)), draw((1, 1)), (0, 0), 1),
    "many rows": (draw((2, 3, 5)), draw((5, 7)), (0, 0), 1),
    "many rows of slices": (draw((2, 3, 11))[..., 2:7], draw((7, 5)).T, (0, 0), 1),
    "last token": (draw((2, 3, 5))[:, -1:], draw((5, 7)), (0, 0), 1),
    "batch": (draw((2, 3, 5)), draw((2, 5, 7)), (0, 0), 1),
    "transposed batch": (draw((2, 5, 3)).mT, draw((2, 7, 5)).mT, (0, 0), 1),
    "two batch axes": (draw((2, 3, 5, 7)), draw((2, 3, 11, 7)).swapaxes(-1, -2), (0, 0), 1),
    "one a for all": (draw((3, 5)), draw((2, 5, 7)), (0, 0), 1),
    "one b for all, not rows": (draw((2, 5, 3)).swapaxes(1, 2), draw((5, 7)), (0, 0), 1),
    "broadcast batch": (draw((2, 1, 3, 5)), draw((11, 5, 7)), (0, 0), 2),
    "grouped queries": (draw((2, 3, 11, 5, 7)), draw((2, 3, 1, 7, 2)), (0, 0), 6),
    "heads of one text": (query, key.swapaxes(-1, -2), (0, 0), 1),
    "heads of two texts": (queries, keys.swapaxes(-1, -2), (1, 1), 1),
    "heads against scores": (draw((2, 3, 7, 11)), keys, (0, 1), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_plan_computes_the_product(name):
    a, b, copies, calls = CASES[name]
    np.testing.assert_allclose(computed(a, b), a @ b, atol=1e-12)
    found = planned(a, b)
    assert found.copies == tuple(map(bool, copies))
    if not any(copies):
        assert len(found.starts) == calls


def test_leading_dimensions_have_32_bits():
    assert matrix_layout(2, 3, 2**31 - 1, 1) == (False, 2**31 - 1)
    assert matrix_layout(2, 3, 2**31, 1) is None
    assert matrix_layout(2, 3, 2, 1) is None  # rows that overlap


def test_axes_merge_only_where_every_operand_steps_evenly():
    assert merged((2, 3, 5), (15, 5, 1), (15, 5, 1)) == [(30, (1, 1))]
    assert merged((2, 3, 5), (15, 5, 1), (20, 5, 1)) == [(2, (15, 20)), (15, (1, 1))]
    assert merged((1, 1), (7, 9)) == []
