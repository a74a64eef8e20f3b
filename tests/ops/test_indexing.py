"""Indexing: reading and writing parts, x[...] and x[...] = value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices, integer_array_indices
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError, GraphError, IndexRangeError, ShapeError

ROWS = np.array([2, 0, 2])
COLUMNS = np.array([1, -1, 0])
GRID = np.array([[0, 1], [2, 2]])
MASK = np.array([[True, False, True], [False, True, True]])


def at(name, index, *shape):
    """A case of x[index] where NumPy means the same."""
    return Case(name, lambda x: x[index], lambda x: x[index], shape)


CASES = [
    at("a row", 1, 2, 3),
    at("an element", (1, -1), 2, 3),
    at("slices", (slice(1, None), slice(None, None, 2)), 3, 5),
    at("backwards", (slice(None, None, -1), slice(4, 0, -2)), 3, 5),
    at("an empty slice", slice(2, 2), 3, 5),
    at("None", (None, slice(None), None, 1), 2, 3),
    at("...", (..., 0), 2, 3, 5),
    at("... in the middle", (1, ..., slice(1, 3)), 2, 3, 5),
    at("only ...", ..., 2, 3),
    at("nothing", (), 2, 3),
    at("0-d with nothing", (), *()),
    at("0-d with ...", ..., *()),
    at("0-d with None", None, *()),
    at("a list", [1, 0, 1], 2, 3),
    at("lists side by side", ([1, 0, 1], [2, 2, 0]), 2, 3),
    at("lists on separate axes", ([1, 0, 1], slice(None), [2, 2, 0]), 2, 3, 5),
    at("lists that broadcast", ([[1], [0]], [2, 0, 1]), 2, 3),
    at("a list after None", (None, [1, 0]), 2, 3),
    at("a list between slices", (slice(1, 3), [0, 2], slice(None, None, -1)), 5, 3, 2),
    at("an empty list", [], 2, 3),
    at("a nested list", [[0, 1], [1, 1]], 2, 3),
    at("a range", range(2), 3, 2),
    at("a mask", MASK, 2, 3),
    at("a mask of the first axes", MASK, 2, 3, 5),
    at("a mask after a slice", (slice(None), MASK), 5, 2, 3),
    at("a mask with a list", ([True, False, True], [0, 1]), 3, 2),
    at("a list of booleans", [True, False], 2, 3),
    at("a mask with no True", np.zeros((2, 3), bool), 2, 3),
    at("True", True, 2, 3),
    at("False", False, 2, 3),
    Case("an index tensor", lambda x, i: x[i], lambda x, i: x[i], (3, 5), ROWS),
    Case("index tensors", lambda x, i, j: x[i, j], lambda x, i, j: x[i, j], (3, 5), ROWS, COLUMNS),
    Case("a grid of indices", lambda x, i: x[:, i], lambda x, i: x[:, i], (2, 3), GRID),
    Case("a mask tensor", lambda x, m: x[m], lambda x, m: x[m], (2, 3), MASK),
    Case("a mask of one axis", lambda x, i: x[i == 2], lambda x, i: x[i == 2], (3, 2), ROWS),
    # PyTorch takes integers first; NumPy would count them among the index arrays.
    Case("an integer and a list on separate axes", lambda x: x[0, :, [1, 0]],
         lambda x: x[0][:, [1, 0]], (2, 3, 5)),
    Case("an integer between lists", lambda x: x[[1, 0], 2, [1, 1]],
         lambda x: x[:, 2][[1, 0], [1, 1]], (2, 3, 5)),
    Case("a 0-d index tensor", lambda x, i: x[:, i], lambda x, i: x[:, int(i)], (2, 3),
         np.array(2)),
    Case("assign a row", lambda x, y: mt.index_assign(x, 1, y),
         lambda x, y: np.stack([x[0], y]), (2, 3), (3,)),
    Case("assign a broadcast value", lambda x, y: mt.index_assign(x, (..., slice(1, 3)), y),
         lambda x, y: np.hstack([x[:, :1], np.broadcast_to(y, (2, 2))]), (2, 3), (2, 1)),
    Case("assign one value", lambda x, y: mt.index_assign(x, MASK, y),
         lambda x, y: np.where(MASK, y, x), (2, 3), ()),
    Case("assign with leading ones", lambda x, y: mt.index_assign(x, 0, y),
         lambda x, y: np.stack([y[0, 0], x[1]]), (2, 3), (1, 1, 3)),
    Case("assign at index tensors", lambda x, y: mt.index_assign(x, ([0, 1], [2, 0]), y),
         lambda x, y: np.array([[x[0, 0], x[0, 1], y[0]], [y[1], x[1, 1], x[1, 2]]]), (2, 3), (2,)),
    Case("assign a number", lambda x: mt.index_assign(x, [0], 7.0),
         lambda x: np.stack([np.full(3, 7.0, x.dtype), x[1]]), (2, 3)),
    Case("index_put", lambda x, y, i: mt.index_put(x, (i,), y),
         lambda x, y, i: np.stack([y[0], x[1], y[1]]), (3, 2), (2, 2), np.array([0, 2])),
    Case("index_put adds", lambda x, y, i: mt.index_put(x, (i,), y, accumulate=True),
         lambda x, y, i: np.stack([x[0] + y[1], x[1], x[2] + y[0] + y[2]]), (3, 2), (3, 2), ROWS),
    Case("index_put adds at pairs", lambda x, y, i, j: x.index_put((i, j), y, True),
         lambda x, y, i, j: np.vstack([x[:2], [x[2, 0] + y, x[2, 1] + y, x[2, 2]]]), (3, 3), (),
         np.array([2, 2]), np.array([0, 1])),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_repeated_places_add_their_gradients(make):
    x = make(3, 2)
    x[[2, 2, 0]].sum().backward()
    assert x.grad.numpy().tolist() == [[1, 1], [0, 0], [2, 2]]


def test_basic_indices_give_views_and_others_copies(make):
    x = make(3, 5, requires_grad=False)
    views = x[1], x[1, 2], x[::2, None], x[..., 1:4], x[:]
    copies = x[[1]], x[x == x], x[[0, 1], [1, 2]]
    x[:] = 7.0
    assert all((view.numpy() == 7).all() for view in views)
    assert all((copy.numpy() != 7).all() for copy in copies)


@pytest.mark.parametrize(
    "index",
    [..., np.s_[:, :3], np.s_[0:2, ::1], np.s_[None, 0], np.s_[::-1], np.s_[:, ::-1]],
    ids=str,
)
def test_the_gradient_of_the_whole(index, make):
    x, weights = make(1 if index == np.s_[None, 0] else 2, 3), make(2, 3)
    y = x[index]
    assert y.shape == x.shape
    (grad,) = mt.autograd.grad((y * weights[: len(x)]).sum(), x)
    expected = np.zeros(x.shape)
    expected[index] = weights.detach().numpy()[: len(x)]
    np.testing.assert_array_equal(grad.numpy(), expected)


def test_indices_may_be_host_arrays(make):
    x = make(3, 5)
    np.testing.assert_array_equal(x[ROWS, COLUMNS].numpy(), x.numpy()[ROWS, COLUMNS])


BAD = [
    (lambda x: x[2], IndexRangeError, "out of range", "2 for axis 0"),
    (lambda x: x[:, -4], IndexRangeError, "out of range", "from -3 to 2"),
    (lambda x: x[..., 3], IndexRangeError, "out of range", "3 for axis 1"),
    (lambda x: x[0, 0, 0], IndexRangeError, "too many indices", "at most 2"),
    (lambda x: x[..., ...], IndexRangeError, "not occur twice", "..."),
    (lambda x: x[[True]], IndexRangeError, "shape of mask", "mask (1,)"),
    (lambda x: x[x > 0, 0], IndexRangeError, "too many indices", "3 for"),
    (lambda x: x[1.0], DTypeError, "unsupported type", "float"),
    (lambda x: x["row"], DTypeError, "unsupported type", "'row'"),
    (lambda x: x[x], DTypeError, "integers or booleans", "float64"),
    (lambda x: mt.index_assign(x, 0, x), ShapeError, "does not broadcast", "(3,)"),
    (lambda x: mt.index_assign(x, [0, 1, 1], x), ShapeError, "does not broadcast", "(3, 3)"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3))
    assert detail in str(caught.value)


def test_an_index_out_of_range_is_an_error(make):
    with pytest.raises(IndexRangeError, match="from -2 to 1"):
        make(2, 3)[[0, 2]].numpy()


WRITES = [
    1,
    (1, -1),
    (slice(None), slice(None, None, -2)),
    (..., [0, 2]),
    MASK,
    ([1, 0], [2, 0]),
    (None, 0),
    [],
]


@pytest.mark.parametrize("number", range(len(WRITES)))
@pytest.mark.parametrize("value", [2.5, "fitting", "one"])
def test_writing_is_numpys(number, value, make, device):
    index, x = WRITES[number], make(2, 3, requires_grad=False)
    expected = x.numpy().copy()
    if value == "fitting":
        value = np.arange(expected[index].size, dtype="float64").reshape(expected[index].shape)
    elif value == "one":
        value = np.full((1,) * expected[index].ndim, 3.0)
    expected[index] = value
    before = x._version[0]
    x[index] = value if isinstance(value, float) else mt.tensor(value, device=device)
    np.testing.assert_array_equal(x.numpy(), expected)
    assert x._version[0] > before


def test_writing_casts_to_the_dtype_of_the_target(device):
    x = mt.zeros(3, dtype=mt.int64, device=device)
    x[0] = 1.9
    x[1:] = mt.tensor([2.5, -2.5], device=device)
    assert x.numpy().tolist() == [1, 2, -2]


def test_writing_a_part_into_another_part_of_itself(device):
    x = mt.tensor([1.0, 2.0, 3.0], device=device)
    x[1:] = x[:-1]
    assert x.numpy().tolist() == [1, 1, 2]


def test_writing_into_a_computed_tensor_is_recorded(make):
    x, value = make(2, 3), make(3)
    y = x * 2
    y[1] = value
    (y * y).sum().backward()
    grad = 8 * x.numpy()
    grad[1] = 0
    np.testing.assert_allclose(x.grad.numpy(), grad)
    np.testing.assert_allclose(value.grad.numpy(), 2 * value.numpy())


def test_writing_a_tracked_value_into_a_plain_tensor_tracks_it(make, device):
    x, value = mt.zeros(2, 3, dtype=mt.float64, device=device), make(3)
    x[:, 1:] = value[1:]
    x.sum().backward()
    assert value.grad.numpy().tolist() == [0, 2, 2]


def test_writing_into_a_leaf_is_refused(make):
    x = make(2, 3)
    with pytest.raises(GraphError, match="a leaf that requires grad"):
        x[0] = 0.0
    with mt.no_grad():
        x[0] = 0.0
    assert (x.numpy()[0] == 0).all()


def test_writing_where_elements_share_memory_is_refused(make):
    x = make(1, 3, requires_grad=False)
    for y in (x.expand(2, 3), mt.sliding_windows(x, 1, 2, 1)):
        with pytest.raises(GraphError, match="must not share memory"):
            y[0] = 1.0
        with pytest.raises(GraphError, match="must not share memory"):
            y.add_(1)


def test_writing_into_windows_and_expansions_without_overlap(make):
    x = make(6, requires_grad=False)
    mt.sliding_windows(x, 0, 2, 3)[1] = 5.0
    x.expand(1, 1, 6)[..., 0] = 4.0
    assert x.numpy()[[0, 3, 4]].tolist() == [4, 5, 5]


SHAPES = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@settings(max_examples=120, deadline=None)
@given(shape=SHAPES, data=st.data())
def test_any_basic_index(shape, data, device):
    index = data.draw(basic_indices(shape, allow_newaxis=True, max_dims=6))
    array = np.random.default_rng(0).standard_normal(shape)
    x = mt.tensor(array, device=device, requires_grad=True)
    y = x[index]
    np.testing.assert_array_equal(y.numpy(), array[index])
    weights = np.random.default_rng(1).standard_normal(y.shape)
    y.backward(mt.tensor(weights, device=device))
    expected = np.zeros(shape)
    expected[index] = weights
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    target = mt.tensor(array, device=device)
    target[index] = mt.tensor(weights, device=device)
    array[index] = weights
    np.testing.assert_array_equal(target.numpy(), array)


@settings(max_examples=80, deadline=None)
@given(shape=array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4), data=st.data())
def test_any_integer_arrays(shape, data, device):
    arrays = data.draw(integer_array_indices(shape[: data.draw(st.integers(1, len(shape)))]))
    array = np.random.default_rng(0).standard_normal(shape)
    x = mt.tensor(array, device=device, requires_grad=True)
    y = x[tuple(mt.tensor(i, device=device) for i in arrays)]
    np.testing.assert_array_equal(y.numpy(), array[arrays])
    y.backward(mt.ones(*y.shape, dtype=mt.float64, device=device))
    expected = np.zeros(shape)
    np.add.at(expected, arrays, 1.0)
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, data=st.data())
def test_any_mask(shape, data, device):
    axes = data.draw(st.integers(0, len(shape)))
    chance = np.random.default_rng(data.draw(st.integers(0, 99)))
    mask = chance.random(shape[:axes]) < 0.5
    array = chance.standard_normal(shape)
    x = mt.tensor(array, device=device)
    np.testing.assert_array_equal(x[mt.tensor(mask, device=device)].numpy(), array[mask])
    x[mt.tensor(mask, device=device)] = 5.0
    array[mask] = 5.0
    np.testing.assert_array_equal(x.numpy(), array)


def test_index_put_accumulates_at_0d_indices(device):
    x, one = mt.zeros(2, 3, device=device), mt.tensor(1.0, device=device)
    last, row = mt.tensor(-1, device=device), mt.tensor([0, 0], device=device)
    y = mt.index_put(x, (last, mt.tensor(0, device=device)), one, accumulate=True)
    np.testing.assert_array_equal(y.numpy(), [[0, 0, 0], [1, 0, 0]])
    y = mt.index_put(x, (row, last), one, accumulate=True)
    np.testing.assert_array_equal(y.numpy(), [[0, 0, 2], [0, 0, 0]])


def test_index_tensors_that_do_not_broadcast_are_an_error(make, device):
    two, none = mt.tensor([0, 1], device=device), mt.tensor([False, False], device=device)
    with pytest.raises(IndexRangeError, match="do not broadcast"):
        make(2, 2)[two, none]
