"""Backward pass: results computed by hand, number of visits, freed memory, and errors."""

import gc
import threading
import weakref

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import Function, backward, function, grad, modes
from minitorch_attn.errors import DTypeError, GraphError, MiniTorchError, NumericError, ShapeError


class Counted(Function):
    """y = factor x, counting how often its backward runs."""

    calls = 0

    @staticmethod
    def forward(ctx, x, *, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad_y):
        Counted.calls += 1
        return grad_y * ctx.factor


class Square(Function):
    """y = x^2, saving its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y * 2 * x


class SumAndDifference(Function):
    """(a + b, a - b, number of elements): several outputs, one of them an integer."""

    @staticmethod
    def forward(ctx, a, b):
        return a + b, a - b, (a > b) + 0

    @staticmethod
    def backward(ctx, grad_sum, grad_difference, grad_count):
        return grad_sum + grad_difference, grad_sum - grad_difference


def leaf(values, device="cpu", dtype="float64"):
    return mt.tensor(values, dtype=dtype, device=device, requires_grad=True)


def values(tensor):
    return tensor.numpy().tolist()


# Worked by hand


def test_a_graph_worked_by_hand(device):
    # y = (a b + a) b: dy/da = (b + 1) b, dy/db = 2 a b + a
    a, b = leaf([2.0, -1.0], device), leaf([3.0, 5.0], device)
    y = (a * b + a) * b
    y.backward(mt.tensor([1.0, 10.0], dtype=mt.float64, device=device))
    assert values(a.grad) == [12.0, 300.0]
    assert values(b.grad) == [14.0, -110.0]


def test_broadcasting_sums_over_the_uses(device):
    a, b = leaf(np.ones((2, 3)), device), leaf([1.0, 2.0, 3.0], device)
    weight = mt.tensor(np.arange(6.0).reshape(2, 3), device=device)
    (a * b * weight).sum().backward()
    assert values(a.grad) == [[0, 2, 6], [3, 8, 15]]
    assert values(b.grad) == [3, 5, 7]


@pytest.mark.parametrize("uses", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_every_use_counts(uses, shape, device):
    x = leaf(np.full(shape, 2.0), device)
    y = x * 1.0
    for factor in range(2, uses + 1):
        y = y + x * float(factor)
    y.backward(mt.tensor(np.full(shape, 10.0), device=device))
    total = 10.0 * uses * (uses + 1) / 2
    np.testing.assert_array_equal(x.grad.numpy(), np.full(shape, total))
    assert type(x.grad.array) is type(x.array)


def test_gradients_add_up_over_passes_in_their_own_memory(device):
    x = leaf(3.0, device)
    (x * 2.0).backward()
    first = x.grad
    (x * 5.0).backward()
    assert x.grad is first and x.grad.item() == 7.0


def test_the_same_tensor_on_both_sides(device):
    x = leaf([3.0], device)
    (x * x).backward()
    assert values(x.grad) == [6.0]
    x = leaf([3.0], device)
    (x + x).backward()
    assert values(x.grad) == [2.0]


def test_an_output_that_is_the_input(device):
    x = leaf([1.0, 2.0], device)
    given = mt.tensor([5.0, 6.0], dtype=mt.float64, device=device)
    assert values(grad(x, x, given)[0]) == [5.0, 6.0]
    x.backward(given)
    assert values(x.grad) == [5.0, 6.0]


def test_a_root_inside_the_graph_of_another_root(device):
    x = leaf([2.0], device)
    middle = x * 3.0
    end = middle * middle
    backward([end, middle], [None, mt.tensor([100.0], dtype=mt.float64, device=device)])
    assert values(x.grad) == [2 * 6.0 * 3.0 + 300.0]


# Cost


def test_a_tensor_used_many_times_costs_linear_time(device):
    x = leaf([1.0], device)
    Counted.calls, y = 0, x
    for _ in range(60):  # 2^60 paths
        y = Counted.apply(y, factor=0.5)
        y = y + y
    y.backward()
    assert Counted.calls == 60
    assert values(x.grad) == [1.0]


def test_only_the_path_to_the_wanted_inputs_is_walked():
    x, w = leaf([1.0]), leaf([2.0])
    deep = x
    for _ in range(10):
        deep = Counted.apply(deep, factor=1.0)
    y = deep * w
    Counted.calls = 0
    assert values(grad(y, w)[0]) == [1.0]
    assert Counted.calls == 0


def test_a_chain_of_100_000_operations():
    x = leaf([1.0])
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    assert values(x.grad) == [1.0]
    del y  # freeing the chain must not recurse either


# Freed by reference count alone


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def graph_of(x, hooked=False):
    """A loss, and weak references to the contexts and arrays behind it."""
    middle = Square.apply(x)
    if hooked:
        middle.retain_grad()
        middle.register_hook(lambda g: g * 1.0)
    end = (middle * x + middle).sum()
    contexts, stack = set(), [end._edge[0]]
    while stack:
        node = stack.pop()
        contexts.add(node)
        stack += [edge[0] for edge in node.edges if edge is not None]
    refs = [weakref.ref(node) for node in contexts if node is not x._edge[0]]
    return end, [*refs, weakref.ref(middle.array), weakref.ref(end.array)]


def alive(refs):
    return [ref() for ref in refs if ref() is not None]


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("how", ["unused", "backward", "retain", "create_graph", "grad"])
def test_graphs_are_freed_by_reference_count(how, hooked, no_collector):
    x = leaf([1.0, 2.0])
    loss, refs = graph_of(x, hooked)
    assert alive(refs)
    if how == "backward":
        loss.backward()
    elif how == "retain":
        loss.backward(retain_graph=True)
        loss.backward()
    elif how == "create_graph":
        loss.backward(create_graph=True)
        assert x.grad.requires_grad
        x.grad = None
    elif how == "grad":
        (slope,) = grad(loss, x, create_graph=True)
        second = grad(slope.sum(), x)
        del slope, second
    del loss
    assert alive(refs) == []


def test_a_gradient_with_a_graph_does_not_keep_its_tensor_alive(no_collector):
    x = leaf([1.0, 2.0])
    loss, refs = graph_of(x)
    loss.backward(create_graph=True)
    refs.append(weakref.ref(x))
    del loss, x
    assert alive(refs) == []


def test_saved_arrays_are_freed_by_the_pass_itself(no_collector):
    x = leaf([1.0, 2.0])
    middle = x * 3.0
    loss = Square.apply(middle).sum()
    saved = weakref.ref(middle.array)
    del middle
    assert saved() is not None
    loss.backward()
    assert saved() is None


# Passes through one graph


def test_a_second_pass_needs_the_graph_retained(device):
    x = leaf([3.0], device)
    y = Square.apply(x)
    y.backward(retain_graph=True)
    y.backward()
    assert values(x.grad) == [12.0]
    with pytest.raises(GraphError, match="Square.*already freed.*\n.*\n.*\n.*retain_graph=True"):
        y.backward()


def test_an_inner_gradient_leaves_the_rest_of_the_graph_for_later(device):
    x = leaf([3.0], device)
    middle = Square.apply(x)
    end = Square.apply(middle)
    (arrived,) = grad(end, middle)
    assert values(arrived) == [18.0]
    middle.backward(arrived)
    assert values(x.grad) == [108.0]


# Switches


def test_no_grad_and_enable_grad_nest():
    x = leaf([1.0])
    with mt.no_grad():
        assert not mt.is_grad_enabled() and not (x * 2).requires_grad
        with mt.enable_grad():
            assert (x * 2).requires_grad
            with mt.set_grad_enabled(False), mt.inference_mode(False):
                assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
        with mt.inference_mode():
            assert not (x * 2).requires_grad
    assert mt.is_grad_enabled()


def test_switches_are_put_back_after_an_error():
    with pytest.raises(ZeroDivisionError), mt.no_grad():
        raise ZeroDivisionError
    assert mt.is_grad_enabled()


def test_switches_as_decorators_also_recursive():
    @mt.no_grad()
    def depth(n):
        """Documented."""
        assert not mt.is_grad_enabled()
        return n if n == 0 else depth(n - 1)

    assert depth(3) == 0 and mt.is_grad_enabled()
    assert depth.__name__ == "depth" and depth.__doc__ == "Documented."


def test_switches_decorate_without_parentheses_too():
    @mt.no_grad
    def off():
        return mt.is_grad_enabled()

    with mt.no_grad():
        assert mt.enable_grad(mt.is_grad_enabled)() is True
    assert off() is False and off.__name__ == "off" and mt.is_grad_enabled()


def test_a_decorated_generator_is_switched_only_while_it_runs():
    @mt.no_grad()
    def count(n):
        for i in range(n):
            got = yield mt.is_grad_enabled(), i
            assert got is None and not mt.is_grad_enabled()
        return "done"

    seen = []
    for inside in count(2):
        seen.append((inside, mt.is_grad_enabled()))
    assert seen == [((False, 0), True), ((False, 1), True)]
    generator = count(2)
    next(generator)
    generator.close()
    assert mt.is_grad_enabled()


def test_one_switch_object_may_be_entered_twice():
    off = mt.no_grad()
    with off, off:
        assert not mt.is_grad_enabled()
    assert mt.is_grad_enabled()


def test_a_decorated_function_restores_the_mode_of_its_own_thread():
    inside, leave = threading.Event(), threading.Event()

    @mt.enable_grad()
    def wait(first):
        if first:
            inside.set()
            leave.wait(10)
        return mt.is_grad_enabled()

    seen = {}

    def run(name, first):
        with mt.set_grad_enabled(name == "recording"):
            wait(first)
            seen[name] = mt.is_grad_enabled()

    slow = threading.Thread(target=run, args=("recording", True))
    slow.start()
    inside.wait(10)
    with mt.no_grad():
        wait_again = threading.Thread(target=run, args=("silent", True))
        wait_again.start()
    leave.set()
    slow.join()
    wait_again.join()
    assert seen == {"recording": True, "silent": False}


def test_each_thread_has_its_own_mode():
    seen = []
    with mt.no_grad():
        thread = threading.Thread(target=lambda: seen.append(mt.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_threads_may_build_and_differentiate_at_once():
    results = [None] * 4

    def work(i):
        for _ in range(30):
            x = leaf([float(i + 1)])
            y = x
            for _ in range(20):
                y = y * x
            y.backward()
            results[i] = x.grad.item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [21.0 * (i + 1) ** 20 for i in range(4)]


# Hooks and retain_grad


def test_hooks_run_in_order_and_may_replace_the_gradient(device):
    x = leaf([1.0], device)
    y = x * 3.0
    seen = []
    y.register_hook(lambda g: seen.append(("first", g.item())))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(("third", g.item())))
    (y * 2.0).backward()
    assert seen == [("first", 2.0), ("third", 20.0)]
    assert values(x.grad) == [60.0]


def test_a_hook_sees_the_sum_of_all_uses_once():
    x = leaf([1.0])
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2.0 + x * 3.0 + x * x).backward()
    assert seen == [7.0] and values(x.grad) == [7.0]


def test_a_removed_hook_is_silent_and_removing_twice_is_fine():
    x = leaf([1.0])
    handle = x.register_hook(lambda g: g * 100)
    handle.remove()
    handle.remove()
    (x * 2.0).backward()
    assert values(x.grad) == [2.0]


def test_a_hook_may_remove_itself():
    x = leaf([1.0])
    calls = []

    def once(g):
        calls.append(1)
        handle.remove()

    handle = x.register_hook(once)
    y = x * 2.0
    y.backward(retain_graph=True)
    y.backward()
    assert calls == [1]


def test_a_hook_may_remove_the_next_one():
    x = leaf([1.0])
    x.register_hook(lambda g: later.remove())
    later = x.register_hook(lambda g: g * 100)
    (x * 2.0).backward()
    assert values(x.grad) == [2.0]


def test_hooks_off_the_path_to_the_wanted_inputs_are_silent():
    x, w = leaf([1.0]), leaf([2.0])
    seen = []
    aside = x * 3.0
    aside.register_hook(lambda g: seen.append(g))
    grad(aside * w, w)
    assert seen == []


@pytest.mark.parametrize("create_graph", [False, True])
def test_hooks_record_only_where_the_pass_is_recorded(create_graph):
    x = leaf([1.0])
    seen = []
    x.register_hook(lambda g: seen.append(mt.is_grad_enabled()))
    (x * x).backward(create_graph=create_graph)
    assert seen == [create_graph]


def test_hooks_on_one_of_several_outputs():
    a, b = leaf([5.0]), leaf([3.0])
    total, difference, _ = SumAndDifference.apply(a, b)
    difference.register_hook(lambda g: g * 0)
    (total * 2.0 + difference * 7.0).backward()
    assert values(a.grad) == [2.0] and values(b.grad) == [2.0]


def test_a_hook_must_keep_the_shape():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g.sum())
    with pytest.raises(ShapeError, match="hook"):
        (x * 2.0).sum().backward()


def test_a_hook_needs_a_gradient_to_wait_for():
    with pytest.raises(GraphError, match="must require grad"):
        mt.tensor([1.0]).register_hook(print)


def test_a_hook_after_accumulation_sees_the_sum():
    x = leaf([1.0])
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 2.0).backward()
    (x * 3.0).backward()
    (x * 1.0).backward(inputs=[x])
    handle.remove()
    (x * 4.0).backward()
    assert seen == [2.0, 5.0, 6.0] and values(x.grad) == [10.0]
    with pytest.raises(GraphError, match="must be a leaf"):
        (x * 2.0).register_post_accumulate_grad_hook(print)


def test_retain_grad_keeps_what_arrived(device):
    x = leaf([2.0], device)
    y = x * 3.0
    y.retain_grad()
    y.retain_grad()  # asking twice changes nothing
    y.register_hook(lambda g: g * 10)  # what goes on is what is kept
    Square.apply(y).backward()
    assert values(y.grad) == [120.0]
    assert values(x.grad) == [360.0]
    x.retain_grad()  # nothing to do for a leaf


def test_retain_grad_under_create_graph():
    x = leaf([2.0])
    y = x * 3.0
    y.retain_grad()
    (y * y * y).backward(create_graph=True)
    assert values(y.grad) == [108.0]
    (second,) = grad(y.grad, x)
    assert values(second) == [6 * 6.0 * 3.0]


# Second and third derivatives


def test_derivatives_of_a_power_up_to_the_fourth(device):
    x = leaf([1.5, -0.5], device)
    y = x * x * x * x
    expected = [4.0 * x.numpy() ** 3, 12.0 * x.numpy() ** 2, 24.0 * x.numpy(), [24.0, 24.0]]
    for wanted in expected:
        (y,) = grad(y.sum(), x, create_graph=True)
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-14)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_second_derivatives_through_a_saved_output(shape, device):
    x = leaf(np.full(shape, 0.3), device)
    (slope,) = grad(x.exp().sum(), x, create_graph=True)
    (second,) = grad(slope.sum(), x, create_graph=True)
    (third,) = grad(second.sum(), x)
    for derivative in (slope, second, third):
        np.testing.assert_allclose(derivative.numpy(), np.exp(x.numpy()), rtol=1e-14)


def test_a_gradient_penalty_reaches_the_weights(device):
    # loss = (d(w x^2)/dx)^2 = 4 w^2 x^2: d/dw = 8 w x^2
    w, x = leaf([3.0], device), leaf([0.5], device)
    (slope,) = grad(w * Square.apply(x), x, create_graph=True)
    (slope * slope).backward()
    np.testing.assert_allclose(w.grad.numpy(), [8 * 3.0 * 0.25])


def test_the_incoming_gradient_may_have_a_graph(device):
    x, v = leaf([3.0], device), leaf([1.0], device)
    (product,) = grad(Square.apply(x), x, v, create_graph=True)
    assert values(grad(product, v)[0]) == [6.0]


# autograd.grad and backward(inputs=...)


def test_grad_of_several_outputs_and_inputs(device):
    a, b = leaf([2.0, 3.0], device), leaf([5.0, 7.0], device)
    weight = mt.tensor([1.0, 10.0], dtype=mt.float64, device=device)
    found = grad([a * b, a + b], [a, b], [weight, weight])
    assert [values(f) for f in found] == [[6.0, 80.0], [3.0, 40.0]]
    assert a.grad is None and b.grad is None


def test_grad_with_respect_to_the_middle_of_a_graph():
    x = leaf([3.0])
    middle = x * 2.0
    found = grad(middle * middle, [middle, x])
    assert [values(f) for f in found] == [[12.0], [24.0]]


def test_gradients_returned_are_memory_of_their_own(device):
    a, b = leaf([1.0, 2.0], device), leaf([[1.0, 2.0]], device)
    given = mt.tensor([1.0], dtype=mt.float64, device=device)
    found = grad((a + b.reshape(2)).sum().reshape(1), [a, b], given)
    for gradient in found:
        gradient.add_(1.0)
    assert [values(f) for f in found] == [[2.0, 2.0], [[2.0, 2.0]]]
    assert values(given) == [1.0]
    given = mt.tensor([3.0, 4.0], dtype=mt.float64, device=device)
    b = leaf([1.0, 2.0], device)
    for gradient in grad(a + b, [a, b], given):  # all three are one array inside
        assert values(gradient) == [3.0, 4.0]
        gradient.add_(1.0)
    assert values(given) == [3.0, 4.0]


def test_gradients_left_in_leaves_are_memory_of_their_own(device):
    a, b = leaf([1.0, 2.0], device), leaf([1.0, 2.0], device)
    given = mt.tensor([1.0, 1.0], dtype=mt.float64, device=device)
    (a + b).backward(given)
    a.grad.add_(5.0)
    assert values(b.grad) == [1.0, 1.0] and values(given) == [1.0, 1.0]


def test_unused_inputs(device):
    x, unused = leaf([1.0, 2.0], device), leaf([float("inf"), 1.0], device)
    loss = (x * 2.0).sum()
    with pytest.raises(GraphError, match="input 1 was not used"):
        grad(loss, [x, unused], retain_graph=True)
    assert grad(loss, [x, unused], retain_graph=True, allow_unused=True)[1] is None
    zeros = grad(loss, [x, unused], materialize_grads=True)[1]
    assert values(zeros) == [0.0, 0.0]


def test_grad_refuses_what_has_no_graph():
    x = leaf([1.0])
    with pytest.raises(GraphError, match="input 0 does not require grad"):
        grad(x * 2.0, mt.tensor([1.0]))
    with pytest.raises(GraphError, match="does not have a graph"):
        grad(mt.tensor([1.0]), x)
    with pytest.raises(GraphError, match="does not have a graph"):
        mt.tensor([1.0]).backward()


def test_backward_for_some_inputs_only():
    a, b = leaf([2.0]), leaf([3.0])
    y = a * b
    y.backward(inputs=[a])
    assert values(a.grad) == [3.0] and b.grad is None


def test_backward_refuses_a_missing_or_misshapen_gradient():
    x = leaf([1.0, 2.0])
    with pytest.raises(GraphError, match="exactly one element"):
        (x * 2.0).backward()
    with pytest.raises(ShapeError, match="shape of the output"):
        (x * 2.0).backward(mt.tensor([1.0]))
    with pytest.raises(MiniTorchError, match="must have the same length"):
        grad([x * 2.0, x * 3.0], x, [mt.tensor([1.0, 1.0])])


# What a Function may and may not do


def test_several_outputs_used_or_not(device):
    a, b = leaf([5.0, 1.0], device), leaf([3.0, 2.0], device)
    total, difference, larger = SumAndDifference.apply(a, b)
    assert not larger.requires_grad and values(larger) == [1, 0]
    (difference * mt.tensor([1.0, 10.0], dtype=mt.float64, device=device)).sum().backward()
    assert values(a.grad) == [1.0, 10.0] and values(b.grad) == [-1.0, -10.0]
    total, _, _ = SumAndDifference.apply(a, b)
    (first, second) = grad(total.sum(), [a, b], create_graph=True)
    assert values(first) == [1.0, 1.0] and values(second) == [1.0, 1.0]


def test_outputs_of_different_shapes_used_one_at_a_time(device):
    class RowAndSum(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save(x)
            return x[0], x.sum(axis=0, keepdims=True)

        @staticmethod
        def backward(ctx, grad_row, grad_sum):
            assert grad_row.shape == (3,) and grad_sum.shape == (1, 3)
            (x,) = ctx.saved
            return x * 0 + grad_sum + 10 * grad_row

    x = leaf(np.ones((2, 3)), device)
    _, total = RowAndSum.apply(x)
    total.sum().backward()
    row, _ = RowAndSum.apply(x)
    row.sum().backward()
    assert values(x.grad) == [[11.0] * 3] * 2


def broken(forward=None, backward=None):
    """Double.apply, with another forward or backward."""

    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad_y):
            return grad_y * 2

    if forward is not None:
        Double.forward = staticmethod(forward)
    if backward is not None:
        Double.backward = staticmethod(backward)
    return Double.apply


@pytest.mark.parametrize(
    ("backward", "error", "words"),
    [
        (lambda ctx, g: g.sum(axis=0), ShapeError, r"Double.backward returned .* \(\)"),
        (lambda ctx, g: g.astype("float32"), DTypeError, "float32 gradient .* float64"),
        (lambda ctx, g: (g, g), GraphError, "returned 2 gradients"),
    ],
)
def test_a_gradient_of_the_wrong_form_is_refused_not_repaired(backward, error, words, device):
    x = leaf([1.0, 2.0], device)
    with pytest.raises(error, match=words):
        broken(backward=backward)(x).sum().backward()
    with mt.autograd.detect_anomaly(), pytest.raises(error, match=words):
        broken(backward=backward)(x).sum().backward()


def test_an_array_from_elsewhere_cannot_be_saved():
    def forward(ctx, x):
        ctx.save(x + 1)
        return x * 2

    with pytest.raises(GraphError, match="ctx.save must be inputs or outputs"):
        broken(forward=forward)(leaf([1.0]))


def test_a_fused_function_needs_its_composed_version():
    def forward(ctx, x):
        ctx.save(x)
        ctx.save_intermediate(x + 1)
        return x * 2

    with pytest.raises(MiniTorchError, match="composed is missing"):
        broken(forward=forward)(leaf([1.0]))


def test_an_error_in_a_recorded_backward_leaves_the_graph_usable():
    fail = [True]

    def backward(ctx, grad_y):
        (x,) = ctx.saved
        if fail[0]:
            raise ZeroDivisionError
        assert not isinstance(x, mt.Tensor)
        return grad_y * 2 * x

    def forward(ctx, x):
        ctx.save(x)
        return x * x

    x = leaf([3.0])
    y = broken(forward, backward)(x)
    with pytest.raises(ZeroDivisionError):
        y.backward(create_graph=True)
    fail[0] = False
    y.backward()
    assert values(x.grad) == [6.0] and mt.is_grad_enabled()


def test_numbers_among_the_inputs(device):
    x = leaf([2.0, 3.0], device, dtype="float32")
    y = 1.5 * x + 2 - (3 - x) * 0.5
    assert y.dtype == mt.float32
    y.sum().backward()
    assert values(x.grad) == [2.0, 2.0] and x.grad.dtype == mt.float32


# Values changed in place after they were saved


def test_a_saved_value_that_was_changed_is_noticed_by_name(device):
    x = leaf([1.0, 2.0], device)
    middle = x * 2.0
    y = Square.apply(middle)
    with mt.no_grad():
        middle.add_(1.0)
    with pytest.raises(GraphError, match="Square.backward.*changed in place.*\n.*input 0"):
        y.sum().backward()


def test_a_change_through_a_view_is_noticed_too(device):
    x = leaf([[1.0, 2.0]], device)
    middle = x * 2.0
    y = Square.apply(middle)
    with mt.no_grad():
        middle.reshape(2).add_(1.0)
    with pytest.raises(GraphError, match="Square.backward.*changed in place.*\n.*input 0"):
        y.sum().backward()


def test_a_change_of_what_nobody_saved_is_fine(device):
    x = leaf([1.0, 2.0], device)
    middle = x + 1.0
    y = middle * 2.0
    with mt.no_grad():
        middle.add_(1.0)
    y.sum().backward()
    assert values(x.grad) == [2.0, 2.0]


# Anomaly mode


def test_anomaly_mode_names_operation_and_line(device):
    x = leaf([-1.0, 4.0], device)
    with mt.autograd.detect_anomaly(), pytest.raises(NumericError) as caught:
        x.sqrt()  # this line
    assert "Sqrt.forward returned NaN" in str(caught.value)
    assert "test_engine.py" in str(caught.value) and "# this line" in str(caught.value)


def test_anomaly_mode_finds_a_backward_nan(device):
    def backward(ctx, grad_y):
        return grad_y * float("nan")

    x = leaf([1.0], device)
    with mt.autograd.detect_anomaly():
        y = broken(backward=backward)(x)  # the culprit
        with pytest.raises(NumericError) as caught:
            y.backward()
    assert "Double.backward returned NaN in the gradient of its input 0" in str(caught.value)
    assert "# the culprit" in str(caught.value)
    y = broken(backward=backward)(x)
    y.backward()  # silent outside
    assert modes.watchers == 0


def test_equal_shapes_share_one_tuple():
    a, b = mt.ones(3, 5, requires_grad=True), mt.ones(3, 5, requires_grad=True)
    first, second = (a * b).grad_fn, (b * a).grad_fn
    assert first.shapes == ((3, 5), (3, 5))
    assert first.shapes is second.shapes


def test_shapes_without_end_are_not_all_remembered():
    for n in range(10_050):
        function._shared[n, "a record of its own"]
    assert len(function._shared) < 10_050
    assert function._shared[7, 7] is function._shared[7, 7]


def test_a_plain_call_of_set_grad_enabled_takes_effect_and_a_block_restores(device):
    x = mt.ones(2, device=device, requires_grad=True)
    try:
        mt.set_grad_enabled(False)
        assert not mt.is_grad_enabled() and not (x * 2).requires_grad
        mt.set_grad_enabled(True)
        assert (x * 2).requires_grad
        with mt.set_grad_enabled(False):
            assert not mt.is_grad_enabled()
            with mt.set_grad_enabled(True):
                assert mt.is_grad_enabled()
            assert not mt.is_grad_enabled()
        assert mt.is_grad_enabled()
        switch = mt.set_grad_enabled(False)
        with switch, switch:
            assert not mt.is_grad_enabled()
        assert mt.is_grad_enabled()  # the block restores what was set before the call
    finally:
        mt.set_grad_enabled(True)


def test_a_decorator_sets_the_mode_only_while_the_function_runs():
    @mt.set_grad_enabled(False)
    def inside():
        return mt.is_grad_enabled()

    assert mt.is_grad_enabled() and not inside() and mt.is_grad_enabled()


@pytest.mark.parametrize("switch", [mt.no_grad, mt.enable_grad, mt.inference_mode])
def test_other_switches_wait_for_their_block(switch):
    before = mt.is_grad_enabled()
    switch()
    assert mt.is_grad_enabled() == before


def test_none_for_a_required_gradient_is_refused(device):
    class Second(Function):
        @staticmethod
        def forward(ctx, x, w):
            return x + w

        @staticmethod
        def backward(ctx, grad_y):
            return grad_y, None

    x, w = mt.ones(2, device=device, requires_grad=True), mt.ones(2, device=device)
    Second.apply(x, w).sum().backward()  # w does not require a gradient
    assert x.grad.tolist() == [1.0, 1.0]
    w.requires_grad = True
    with pytest.raises(GraphError, match="Second.backward returned None for its input 1"):
        Second.apply(x, w).sum().backward()
