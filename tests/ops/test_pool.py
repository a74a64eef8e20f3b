"""Pooling: the maximum and the mean of windows."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError


def each(value, axes):
    return (value,) * axes if isinstance(value, int) else tuple(value)


def spans(size, kernel, stride, padding, dilation, ceil_mode):
    """For each window along one axis: the positions inside, and how many it counts with padding."""
    found, start = [], -padding
    while start + dilation * (kernel - 1) < size + padding or (
        ceil_mode
        and start < size
        and start < size + padding
        and start - stride + dilation * (kernel - 1) + 1 < size + padding
    ):
        positions = [start + dilation * i for i in range(kernel)]
        found.append((
            [p for p in positions if 0 <= p < size],
            min(start + kernel, size + padding) - start,
        ))  # fmt: skip
        start += stride
    return found


def shared(size, places):
    found = []
    for o in range(places):
        positions = range(o * size // places, int(np.ceil((o + 1) * size / places)))
        found.append((list(positions), len(positions)))
    return found


def pooled(x, axes_spans, reduce):
    """`reduce(elements, padded count)` of every window, one at a time."""
    y = np.empty((*x.shape[:2], *map(len, axes_spans)), x.dtype)
    for place in np.ndindex(*y.shape[2:]):
        windows = [span[o] for span, o in zip(axes_spans, place, strict=True)]
        count = int(np.prod([c for _, c in windows]))
        entries = list(itertools.product(*[w for w, _ in windows]))
        for b, c in np.ndindex(*x.shape[:2]):
            y[(b, c, *place)] = reduce([x[(b, c, *e)] for e in entries], count)
    return y


def largest(elements, count):
    return max(elements)


def axes_spans(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    axes = x.ndim - 2
    stride = kernel_size if stride is None else stride
    numbers = zip(x.shape[2:], *[each(v, axes) for v in (kernel_size, stride, padding, dilation)],
                  strict=True)  # fmt: skip
    return [spans(*numbers, ceil_mode) for numbers in numbers]


def max_case(name, shape, *args, **how):
    function = getattr(mt, f"max_pool{len(shape) - 2}d")
    return Case(
        name,
        lambda x: function(x, *args, **how),
        lambda x: pooled(x, axes_spans(x, *args, **how), largest),
        shape,
    )


def avg_case(name, shape, *args, include=True, divisor=None, **how):
    function = getattr(mt, f"avg_pool{len(shape) - 2}d")
    more = {} if divisor is None else {"divisor_override": divisor}

    def mean(elements, count):
        return sum(elements) / (divisor or (count if include else len(elements)))

    return Case(
        name,
        lambda x: function(x, *args, count_include_pad=include, **more, **how),
        lambda x: pooled(x, axes_spans(x, *args, **how), mean),
        shape,
    )


def adaptive_case(kind, shape, *sizes):
    function = getattr(mt, f"adaptive_{kind}_pool{len(sizes)}d")
    reduce = largest if kind == "max" else lambda elements, count: sum(elements) / count
    return Case(
        f"adaptive {kind} {shape} to {sizes}",
        lambda x: function(x, sizes if len(sizes) > 1 else sizes[0]),
        lambda x: pooled(
            x, [shared(n, m) for n, m in zip(x.shape[2:], sizes, strict=True)], reduce
        ),
        shape,
    )


CASES = [
    max_case("max 1d", (2, 3, 7), 2),
    max_case("max 1d overlapping", (2, 3, 7), 3, 1),
    max_case("max 2d", (2, 3, 5, 7), (2, 3)),
    max_case("max 2d overlapping, padded", (2, 3, 5, 7), 3, (2, 1), 1),
    max_case("max 2d dilated", (1, 2, 7, 5), (3, 2), 1, 1, 2),
    max_case("max 2d with last windows", (1, 2, 6, 5), 3, 2, 1, ceil_mode=True),
    max_case("max 2d, a last window would begin outside", (1, 2, 5, 2), 2, 3, 1, ceil_mode=True),
    max_case("max 3d", (1, 2, 3, 5, 4), (2, 3, 2), 1),
    max_case("max of no images", (0, 3, 5, 7), 2),
    avg_case("mean 1d", (2, 3, 7), 2),
    avg_case("mean 2d", (2, 3, 5, 7), (2, 3), 1),
    avg_case("mean 2d padded", (2, 3, 5, 7), 3, 2, 1),
    avg_case("mean 2d that leaves the padding out", (2, 3, 5, 7), 3, 2, 1, include=False),
    avg_case("mean 2d with last windows", (1, 2, 6, 4), 3, 2, 1, ceil_mode=True),
    avg_case("mean 2d with last windows, padding left out", (1, 2, 6, 4), 3, 2, 1, ceil_mode=True,
             include=False),
    avg_case("mean 2d divided by a number", (1, 2, 6, 4), 3, 2, 1, divisor=5),
    avg_case("mean 3d", (1, 2, 3, 5, 4), (2, 3, 1), 2),
    avg_case("mean of no images", (0, 3, 5, 7), 2),
    adaptive_case("avg", (2, 3, 7), 3),
    adaptive_case("avg", (2, 3, 6, 5), 3, 2),
    adaptive_case("avg", (1, 2, 2, 3), 5, 7),
    adaptive_case("avg", (1, 2, 2, 3, 5), 2, 1, 3),
    adaptive_case("avg", (2, 3, 5, 7), 1, 1),
    adaptive_case("max", (2, 3, 7), 3),
    adaptive_case("max", (2, 3, 6, 5), 4, 2),
    adaptive_case("max", (1, 2, 2, 3), 5, 3),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_windows(device, data):
    axes = data.draw(st.integers(1, 2))
    each_of = lambda low, high: data.draw(st.tuples(*[st.integers(low, high)] * axes))  # noqa: E731
    kernel, stride, dilation = each_of(1, 4), each_of(1, 3), each_of(1, 2)
    padding = [data.draw(st.integers(0, k // 2)) for k in kernel]
    ceil_mode = data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.integers(-2, 3, (2, 1, *each_of(7, 9))).astype("float32")
    expected = pooled(x, axes_spans(x, kernel, stride, padding, dilation, ceil_mode), largest)
    y, place = getattr(mt, f"max_pool{axes}d")(
        mt.tensor(x, device=device), kernel, stride, padding, dilation, ceil_mode, True
    )
    np.testing.assert_array_equal(y.numpy(), expected)
    assert place.dtype == mt.int64 and y.is_contiguous()
    found = np.take_along_axis(x.reshape(2, 1, -1), place.numpy().reshape(2, 1, -1), 2)
    np.testing.assert_array_equal(found.reshape(y.shape), expected)
    include = data.draw(st.booleans())
    y = getattr(mt, f"avg_pool{axes}d")(
        mt.tensor(x, device=device), kernel, stride, padding, ceil_mode, include
    )
    mean = lambda e, c: sum(e) / (c if include else len(e))  # noqa: E731
    expected = pooled(x, axes_spans(x, kernel, stride, padding, 1, ceil_mode), mean)
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-5)


def test_of_equal_elements_the_first_is_found(device):
    x = mt.tensor([[[1.0, 1.0], [1.0, 1.0]]], device=device, requires_grad=True)
    y, place = mt.max_pool2d(x, 2, return_indices=True)
    y.sum().backward()
    assert place.numpy().tolist() == [[[0]]]
    assert x.grad.numpy().tolist() == [[[1.0, 0.0], [0.0, 0.0]]]


def test_windows_that_find_the_same_element_add_up(device):
    x = mt.tensor([[0.0, 5.0, 1.0]], device=device, requires_grad=True)
    mt.max_pool1d(x, 2, 1).backward(mt.tensor([[2.0, 3.0]], device=device))
    assert x.grad.numpy().tolist() == [[0.0, 5.0, 0.0]]


def test_nan_and_infinity(device):
    x = np.array([[-np.inf, -np.inf, -np.inf], [np.nan, 2.0, np.nan]])
    for pool in (
        lambda x: mt.max_pool1d(x, 3, padding=1, stride=2, return_indices=True),
        lambda x: mt.adaptive_max_pool1d(x, 2, return_indices=True),
    ):
        y, place = pool(mt.tensor(x, device=device))
        np.testing.assert_array_equal(y.numpy(), [[-np.inf, -np.inf], [np.nan, np.nan]])
        assert place.numpy().tolist() == [[0, 1], [0, 2]]
    means = mt.avg_pool1d(mt.tensor([[np.inf, 1.0, 2.0, np.nan]], device=device), 2, 1, 1)
    np.testing.assert_array_equal(means.numpy(), [[np.inf, np.inf, 1.5, np.nan, np.nan]])


def test_maximum_of_maps_whose_channels_are_last_in_memory(rng, device):
    x = rng.integers(-2, 3, (2, 3, 7, 5, 4)).astype("float32")
    x[1, :, 3:5, 2], kernel = np.nan, (3, 1, 3)
    last = mt.tensor(x, device=device).permute(0, 2, 3, 1, 4).contiguous().permute(0, 3, 1, 2, 4)
    whole = mt.tensor(x, device=device)
    for size, how in ((kernel, {"stride": (2, 1, 2), "padding": (1, 0, 1)}), (1, {})):
        expected = mt.max_pool3d(whole, size, **how, return_indices=True)
        for maps in (last, mt.tensor(x.transpose(0, 2, 3, 4, 1).copy(), device=device)
                     .permute(0, 4, 1, 2, 3)):  # fmt: skip
            found = mt.max_pool3d(maps, size, **how, return_indices=True)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert found[0].permute(0, 2, 3, 4, 1).is_contiguous()
    found[0].fill_(9.0)
    assert maps.max().item() != 9.0  # it is not a view of the maps


@pytest.mark.parametrize("window", [{"kernel_size": 1}, {"kernel_size": (2, 3), "stride": (1, 2)},
    {"kernel_size": (3, 2), "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": (3, 1), "dilation": (1, 3)}])  # fmt: skip
def test_maximum_without_indices(rng, device, window):
    host = rng.integers(-2, 3, (2, 3, 5, 7)).astype("float32")
    host[1, :, 2:4, 3] = np.nan
    cotangent = None
    last = mt.tensor(host.transpose(0, 2, 3, 1).copy(), device=device).permute(0, 3, 1, 2)
    for x in (mt.tensor(host, device=device), last):
        expected, _ = mt.max_pool2d(x, **window, return_indices=True)
        y = mt.max_pool2d(x, **window)
        np.testing.assert_array_equal(y.numpy(), expected.numpy())
        y.fill_(9.0)
        assert (x != 9.0).all()  # it is not a view of the maps
        grads = []
        for both in (True, False):
            x = x.detach().requires_grad_()
            y = mt.max_pool2d(x, **window, return_indices=both)
            y = y[0] if both else y
            if cotangent is None:
                cotangent = mt.tensor(rng.normal(size=y.shape).astype("float32"), device=device)
            y.backward(cotangent)
            grads.append(x.grad.numpy())
        np.testing.assert_array_equal(*grads)
        assert grads[0].any()


@pytest.mark.parametrize("window", [(15, 17), (16, 16), (17, 17)])
def test_maximum_of_windows_with_about_256_elements(rng, device, window):
    x = rng.normal(size=(2, 1, 34, 35)).astype("float32")
    y, place = mt.max_pool2d(mt.tensor(x, device=device), window, (9, 8), return_indices=True)
    expected = pooled(x, axes_spans(x, window, (9, 8), (0, 0), (1, 1), False), largest)
    np.testing.assert_array_equal(y.numpy(), expected)
    found = np.take_along_axis(x.reshape(2, 1, -1), place.numpy().reshape(2, 1, -1), 2)
    np.testing.assert_array_equal(found.reshape(y.shape), expected)


def test_the_plain_means_do_not_change_infinite_neighbours(device):
    x = mt.tensor([[1.0, 2.0, 3.0, np.inf]], device=device)
    np.testing.assert_array_equal(mt.adaptive_avg_pool1d(x, 2).numpy(), [[1.5, np.inf]])
    np.testing.assert_array_equal(mt.adaptive_avg_pool1d(x, 3).numpy(), [[1.5, 2.5, np.inf]])


def test_integers_have_a_largest_element(device):
    x = mt.tensor([[3, -7, 2, -1]], device=device)
    assert mt.max_pool1d(x, 3, 2, 1).numpy().tolist() == [[3, 2]]


def test_images_without_batch_and_sizes_that_stay(make):
    x = make(3, 5, 7, requires_grad=False)
    assert mt.max_pool2d(x, 2).shape == (3, 2, 3)
    assert mt.avg_pool2d(x, 2).shape == (3, 2, 3)
    assert mt.adaptive_avg_pool2d(x, (None, 2)).shape == (3, 5, 2)
    assert mt.adaptive_max_pool2d(x, 3).shape == (3, 3, 3)
    kept = mt.adaptive_avg_pool2d(x, (None, None))
    np.testing.assert_array_equal(kept.numpy(), x.numpy())
    assert mt.adaptive_avg_pool2d(x, 0).shape == (3, 0, 0)


def test_a_step_needs_no_synchronisation(make):
    x = make(2, 3, 6, 5)
    with forbid_sync():
        mt.max_pool2d(x, 3, 2, 1).sum().backward()
        mt.avg_pool2d(x, 3, 2, 1).sum().backward()


BAD = [
    (lambda x: mt.max_pool2d(x[0, 0], 2), ShapeError, "3 or 4 axes", "(5, 7)"),
    (lambda x: mt.max_pool2d(x, 2, padding=2), ArgumentError, "at most half", "padding=2"),
    (lambda x: mt.avg_pool2d(x, 6), ShapeError, "larger than the padded", "span 6"),
    (lambda x: mt.max_pool2d(x, (2, 2, 2)), ArgumentError, "kernel_size must be", "2 numbers"),
    (lambda x: mt.max_pool2d(x, 0), ArgumentError, "kernel_size must be", "at least 1"),
    (lambda x: mt.max_pool2d(x, 2, 0), ArgumentError, "stride must be", "at least 1"),
    (lambda x: mt.avg_pool2d(x, 2, divisor_override=0), ArgumentError, "divisor_override", "0"),
    (lambda x: mt.avg_pool2d(x.long(), 2), DTypeError, "floating-point", "int64"),
    (lambda x: mt.adaptive_avg_pool2d(x, (1, 2, 3)), ArgumentError, "output_size must be", "None"),
    (lambda x: mt.adaptive_avg_pool2d(x, -1), ArgumentError, "output_size must be", "-1"),
    (lambda x: mt.adaptive_max_pool2d(x[:, :, :0], 1), ShapeError, "must not be empty", "(2, 3, 0"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3, 5, 7))
    assert detail in str(caught.value)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("size", [(0,), (0, 2), (2, 0), (0, 0)])
def test_an_output_without_elements(kind, size, device):
    pool = getattr(mt.nn.functional, f"adaptive_{kind}_pool{len(size)}d")
    x = mt.ones(2, 3, *(5, 4)[: len(size)], device=device, requires_grad=True)
    y = pool(x, size)
    assert y.shape == (2, 3, *size) and y.dtype == np.float32
    y.sum().backward()
    assert not x.grad.numpy().any()
    if kind == "max":
        place = pool(x, size, return_indices=True)[1]
        assert place.shape == y.shape and place.dtype == np.int64
