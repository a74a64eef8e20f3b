"""Changes in place, on tensors and through views: gradients as if memory were a value.

Every hand-worked case starts from a leaf x and works on y = x * 1 (a leaf itself may not be
changed), with x = [[1, 2, 3], [4, 5, 6]].
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_attn as mt
from minitorch_attn.autograd import grad, gradgradcheck
from minitorch_attn.errors import DTypeError, GraphError, ShapeError
from minitorch_attn.gradcheck import gradcheck


@pytest.fixture
def x(device):
    """The leaf of the hand-worked cases."""
    values = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    return mt.tensor(values, dtype=mt.float64, device=device, requires_grad=True)


@pytest.fixture
def w(device):
    """A second leaf, a row."""
    return mt.tensor([10.0, 20.0, 30.0], dtype=mt.float64, device=device, requires_grad=True)


def slope(output, leaf):
    """d(sum of output)/d(leaf) as nested lists."""
    return grad(output.sum(), leaf, retain_graph=True)[0].tolist()


def test_a_change_through_a_view_changes_the_base(x):
    y = x * 1
    row = y[0]
    row.mul_(3)
    assert y.tolist() == [[3, 6, 9], [4, 5, 6]]
    assert slope(y, x) == [[3, 3, 3], [1, 1, 1]]
    assert slope(row, x) == [[3, 3, 3], [0, 0, 0]]


def test_a_change_of_the_base_changes_the_view(x):
    y = x * 1
    row = y[1]
    y.mul_(y.detach().clone())  # d(y * c)/dy = c
    assert row.tolist() == [16, 25, 36]
    assert slope(row, x) == [[0, 0, 0], [4, 5, 6]]


def test_a_change_through_one_view_is_seen_by_another(x):
    y = x * 1
    row, column = y[0], y[:, 0]
    row.mul_(2)
    column.mul_(5)
    assert y.tolist() == [[10, 4, 6], [20, 5, 6]]
    assert slope(y, x) == [[10, 2, 2], [5, 1, 1]]
    assert slope(row, x) == [[10, 2, 2], [0, 0, 0]]
    assert slope(column, x) == [[10, 0, 0], [5, 0, 0]]


def test_a_view_of_a_view(x, w):
    y = x * 1
    part = y.view(6)[1:4]
    part.mul_(w)
    assert y.tolist() == [[1, 20, 60], [120, 5, 6]]
    assert slope(y, x) == [[1, 10, 20], [30, 1, 1]]
    assert slope(y, w) == [2, 3, 4]


def test_a_view_of_a_view_is_replayed_from_the_base(x):
    y = x * 1
    part = y.T[1:].T
    y.mul_(7)
    assert slope(part, x) == [[0, 7, 7], [0, 7, 7]]


def test_a_transposed_view(x):
    y = x * 1
    y.T[0].zero_()
    assert slope(y * y, x) == [[0, 4, 6], [0, 10, 12]]


def test_a_base_in_column_order(x):
    y = x.T.float()  # a conversion keeps the memory order: the transpose of y is contiguous
    y.T.reshape(6)[:2].mul_(4)
    assert slope(y, x) == [[4, 4, 1], [1, 1, 1]]


def test_several_changes_in_a_row(x):
    y = x * 1
    row = y[0]
    row.mul_(2)
    y.add_(1)
    row.mul_(row.detach().clone())  # (2 x + 1) times the constant 2 x + 1
    assert y.tolist() == [[9, 25, 49], [5, 6, 7]]
    assert slope(y, x) == [[6, 10, 14], [1, 1, 1]]


def test_an_element_of_a_row(x):
    y = x * 1
    y[0][1] = 5.0
    y[1][2] += 1.0
    assert y.tolist() == [[1, 5, 3], [4, 5, 7]]
    assert slope(y * y, x) == [[2, 0, 6], [8, 10, 14]]


def test_augmented_assignment_to_a_part(x, w):
    y = x * 1
    y[:, 1:] *= w[1:]
    y[0] -= w
    assert slope(y, x) == [[1, 20, 30], [1, 20, 30]]
    assert slope(y, w) == [-1, 6, 8]


def test_pieces_of_a_split(x):
    y = x * 1
    left, right = y.split((1, 2), 1)
    left.mul_(3)
    right.add_(left)
    assert slope(y, x) == [[9, 1, 1], [9, 1, 1]]
    assert slope(left, x) == [[3, 0, 0], [3, 0, 0]]


def test_rows_from_unbind(x):
    y = x * 1
    for number, row in enumerate(y):
        row.mul_(number + 2)
    assert slope(y, x) == [[2, 2, 2], [3, 3, 3]]


def test_a_plain_base_becomes_tracked_through_its_view(w, device):
    base = mt.zeros(2, 3, dtype=mt.float64, device=device)
    row = base[1]
    row.copy_(w * 2)
    assert base.requires_grad and not base.is_leaf
    assert slope(base, w) == [2, 2, 2]
    assert slope(row * row, w) == [80, 160, 240]
    assert base.grad_fn is not None


def test_operations_that_save_their_output(x):
    y = x * 1
    row = y[0]
    row.exp_()
    y.sqrt_()
    expected = np.exp([0.5, 1, 1.5]) / 2
    np.testing.assert_allclose(slope(y, x)[0], expected)
    np.testing.assert_allclose(slope(row, x)[0], expected)
    np.testing.assert_allclose(slope(y, x)[1], 0.5 / np.sqrt([4, 5, 6]))


def test_filling_forgets_the_past(x):
    y = x * 1
    y[0].fill_(3.0)
    assert slope(y, x) == [[0, 0, 0], [1, 1, 1]]
    y.zero_()
    assert y.requires_grad
    assert slope(y, x) == [[0, 0, 0], [0, 0, 0]]


def test_what_was_computed_before_keeps_its_gradient(x):
    y = x * 1
    before = y * 2  # saves no tensor
    y.mul_(100)
    assert slope(before, x) == [[2, 2, 2], [2, 2, 2]]
    assert slope(y, x) == [[100] * 3] * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.mul_(2),
        lambda y: y[0].mul_(2),
        lambda y: y.T.view(3, 2)[0].zero_() if y.T.is_contiguous() else y.T[0].zero_(),
        lambda y: y.detach().add_(1),
        lambda y: y.__setitem__((0, 0), 3.0),
        lambda y: y.data.__setitem__(0, 3.0),
    ],
)
def test_a_saved_tensor_that_was_changed_is_noticed(change, x):
    y = x * 1
    z = (y * y).sum()
    change(y)
    with pytest.raises(GraphError, match="changed in place") as error:
        z.backward()
    assert "Mul.backward" in str(error.value)


def test_a_change_without_recording_is_noticed_too(x):
    y = x * 1
    z = (y * y).sum()
    with mt.no_grad():
        y[0] = 0.0
    with pytest.raises(GraphError, match="changed in place"):
        z.backward()


def test_no_grad_changes_values_only(x):
    y = x * 1
    with mt.no_grad():
        y[0].mul_(5)
    assert y.tolist()[0] == [5, 10, 15]
    assert slope(y, x) == [[1, 1, 1], [1, 1, 1]]


def test_leaves_and_their_views_are_refused(x):
    leaf = x.detach().clone()[0].requires_grad_()  # shares memory, but starts a graph
    for target in (x, x[0], x.view(6), x.unbind(0)[1], leaf, leaf[1:]):
        with pytest.raises(GraphError, match="a leaf that requires grad"):
            target.mul_(2)
    with mt.no_grad():
        x[0].mul_(2)
    assert x.tolist()[0] == [2, 4, 6]


def test_results_that_do_not_fit_are_refused(x, w, device):
    y = w * 1
    with pytest.raises(ShapeError, match="shape of the result does not match"):
        y.add_(x)
    counts = mt.tensor([1, 2, 3], device=device)
    with pytest.raises(DTypeError, match="cannot be stored in"):
        counts.add_(0.5)
    assert counts.tolist() == [1, 2, 3]


def test_in_place_methods_return_the_tensor_itself(x):
    y = x * 1
    assert y.mul_(2).add_(1) is y
    z = y
    z += 1
    assert z is y


def test_second_derivatives(make):
    def work(x, w):
        y = x * w
        row = y[0]
        row.mul_(row.clone())
        y.T[1].add_(w[1] * y.T[0].clone())
        y[1, :2] = (w * w)[1:]
        return y, row

    inputs = make(2, 3), make(3)
    assert gradcheck(work, inputs)
    assert gradgradcheck(work, inputs)


VIEWS = {
    "first": lambda t: t[0] if t.ndim else t.reshape(1),
    "last": lambda t: t[..., -1] if t.ndim else t[None],
    "every second": lambda t: t[::2] if t.ndim else t,
    "backwards": lambda t: t[..., ::-1] if t.ndim else t,
    "transposed": lambda t: t.T,
    "flat": lambda t: t.reshape(-1),
    "new axis": lambda t: t.unsqueeze(0),
    "half": lambda t: t.chunk(2)[0] if t.ndim else t,
    "diagonal": lambda t: t.diagonal() if t.ndim == 2 else t,
}
CHANGES = {
    "mul_": lambda t, other: t.mul_(1.5),
    "add_": lambda t, other: t.add_(other),
    "mul_ by another": lambda t, other: t.mul_(other),
    "tanh_": lambda t, other: t.tanh_(),
    "write a part": lambda t, other: t.__setitem__(0, other) if t.ndim else t.neg_(),
    "write at a list": lambda t, other: t.__setitem__([-1], 2.0 * other) if t.ndim else t.neg_(),
}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("view"), st.integers(0, 9), st.sampled_from(sorted(VIEWS))),
        st.tuples(st.just("change"), st.integers(0, 9), st.sampled_from(sorted(CHANGES))),
    ),
    min_size=2,
    max_size=8,
)


def run(steps, x, other):
    """Carry out a program of views and changes; every name it made is a result."""
    names = [x * 1.0]
    for kind, which, what in steps:
        target = names[which % len(names)]
        if target.numpy().size == 0:
            continue
        if kind == "view":
            names.append(VIEWS[what](target))
        else:
            CHANGES[what](target, other)
    return tuple(names)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_any_program_of_views_and_changes(steps, device):
    rng = np.random.default_rng(5)
    x = mt.tensor(rng.uniform(-1, 1, (3, 3)), device=device, requires_grad=True)
    other = mt.tensor(0.7, dtype=mt.float64, device=device, requires_grad=True)
    assert gradcheck(lambda x, other: run(steps, x, other), (x, other))


SHAPES = [
    ("squeeze", (2, 1, 3), (1,)),
    ("squeeze", (2, 1, 3), ()),
    ("unsqueeze", (2, 3), (-1,)),
    ("transpose", (2, 3, 5), (0, 2)),
    ("t", (2, 3), ()),
    ("swapaxes", (2, 3, 5), (1, -1)),
    ("swapdims", (2, 3, 5), (1, -1)),
]


@pytest.mark.parametrize(("name", "shape", "arguments"), SHAPES)
def test_a_change_of_shape_in_place(name, shape, arguments, make):
    """It gives the values and the gradient of the operation, and shares memory with old views."""
    x = make(*shape)
    cotangent = make(*getattr(x, name)(*arguments).shape, requires_grad=False)
    y = x * 2
    row = y[0]
    same = getattr(y, f"{name}_")(*arguments)
    assert same is y and y.shape == getattr(x, name)(*arguments).shape
    y.mul_(3.0)
    (y * cotangent).sum().backward()
    expected = mt.autograd.grad((getattr(x, name)(*arguments) * 6 * cotangent).sum(), x)[0]
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), rtol=1e-12)
    np.testing.assert_allclose(row.detach().numpy(), x.detach().numpy()[0] * 6)


def test_a_change_of_shape_in_place_refuses_a_leaf(make):
    with pytest.raises(GraphError, match="leaf"):
        make(2, 1).squeeze_()
    plain = make(2, 1, requires_grad=False)
    assert plain.squeeze_().shape == (2,) and plain.unsqueeze_(0).shape == (1, 2)
    leaf = make(2, 1)
    with mt.no_grad():
        leaf.squeeze_()
    (leaf * 3).sum().backward()
    assert leaf.requires_grad and leaf.grad.tolist() == [3, 3]


@pytest.mark.parametrize("index", [(0, 1), slice(1, 2), (slice(0, 1), slice(1, 2)), 1])
def test_an_old_view_of_a_tensor_that_changed_its_shape_has_no_wrong_gradient(index, make):
    """The view operation would now select other elements: this is refused, not ignored."""
    for requires_grad in (True, False):
        y = make(3, 3, requires_grad=False) if not requires_grad else make(3, 3) * 1
        view, factor = y[index], make(1)
        y.t_()
        y.mul_(factor)
        with pytest.raises(GraphError, match="changed its shape in place"):
            view.sum().backward()


def test_an_old_view_that_still_selects_the_same_elements_keeps_its_gradient(make):
    x = make(3, 3)
    y = x * 1
    diagonal = y.diagonal()
    y.t_()
    y.mul_(3.0)
    diagonal.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 3 * np.eye(3))


def test_a_write_through_an_old_view_is_refused(make):
    y, factor = make(3, 3, requires_grad=False), make(1)
    row = y[0]
    y.t_()
    with pytest.raises(GraphError, match="changed its shape in place"):
        row.mul_(factor)
