"""Fold and unfold: images as columns of patches, and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError


def two(value):
    return (value, value) if isinstance(value, int) else value


def entries(size, kernel_size, dilation=1, padding=0, stride=1):
    """(row of the column within a channel, column, y, x) of every entry inside the image."""
    kernel, dilation, padding, stride = map(two, (kernel_size, dilation, padding, stride))
    numbers = zip(size, padding, dilation, kernel, stride, strict=True)
    places = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in numbers]
    found = []
    for oy, ox, ky, kx in np.ndindex(*places, *kernel):
        y = oy * stride[0] + ky * dilation[0] - padding[0]
        x = ox * stride[1] + kx * dilation[1] - padding[1]
        if 0 <= y < size[0] and 0 <= x < size[1]:
            found.append((ky * kernel[1] + kx, oy * places[1] + ox, y, x))
    return found, kernel[0] * kernel[1], places[0] * places[1]


def loop_unfold(image, *args, **how):
    found, rows, columns = entries(image.shape[2:], *args, **how)
    result = np.zeros((*image.shape[:2], rows, columns), image.dtype)
    for k, o, y, x in found:
        result[:, :, k, o] = image[:, :, y, x]
    return result.reshape(image.shape[0], image.shape[1] * rows, columns)


def loop_fold(columns, size, *args, **how):
    found, rows, count = entries(two(size), *args, **how)
    parts = columns.reshape(columns.shape[0], columns.shape[1] // rows, rows, count)
    image = np.zeros((*parts.shape[:2], *two(size)), columns.dtype)
    for k, o, y, x in found:
        image[:, :, y, x] += parts[:, :, k, o]
    return image


def unfold_case(name, shape, *args, **how):
    return Case(
        name, lambda x: mt.unfold(x, *args, **how), lambda x: loop_unfold(x, *args, **how), shape
    )


def fold_case(name, shape, *args, **how):
    return Case(
        name, lambda x: mt.fold(x, *args, **how), lambda x: loop_fold(x, *args, **how), shape
    )


CASES = [
    unfold_case("unfold", (2, 3, 5, 7), 2),
    unfold_case("unfold, a number per axis", (1, 2, 5, 7), (2, 3), (2, 1), (1, 2), (1, 3)),
    unfold_case("unfold, separate patches", (2, 3, 6, 4), (3, 2), stride=(3, 2)),
    unfold_case("unfold one element", (2, 3, 5, 2), 1),
    unfold_case("unfold no images", (0, 3, 5, 7), 2),
    fold_case("fold", (2, 8, 6), (3, 4), 2),
    fold_case("fold, a number per axis", (1, 12, 25), (5, 7), (2, 3), (2, 1), (1, 2), (1, 2)),
    fold_case("fold, separate patches", (2, 8, 4), 4, 2, stride=2),
    fold_case("fold padded", (1, 4, 9), 2, 2, padding=1),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_unfold_and_fold_are_adjoint(device, data):
    pair = lambda low, high: data.draw(st.tuples(*[st.integers(low, high)] * 2))  # noqa: E731
    how = {"kernel_size": pair(1, 3), "dilation": pair(1, 2), "stride": pair(1, 3)}
    how["padding"] = pair(0, 2)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.normal(size=(2, 2, *pair(5, 7)))
    columns = mt.unfold(mt.tensor(x, device=device), **how)
    np.testing.assert_allclose(columns.numpy(), loop_unfold(x, **how))
    g = rng.normal(size=columns.shape)
    image = mt.fold(mt.tensor(g, device=device), x.shape[2:], **how)
    np.testing.assert_allclose(image.numpy(), loop_fold(g, x.shape[2:], **how), atol=1e-12)
    assert columns.is_contiguous() and image.is_contiguous()


def test_without_batch_and_without_sharing_memory(make):
    x = make(3, 4, 6, requires_grad=False)
    columns = mt.unfold(x, 2, stride=2)
    assert columns.shape == (12, 6)
    np.testing.assert_array_equal(mt.fold(columns, (4, 6), 2, stride=2).numpy(), x.numpy())
    before = x.numpy().copy()
    mt.unfold(x, 1).fill_(0.0)
    mt.fold(columns, (4, 6), 2, stride=2).fill_(0.0)
    np.testing.assert_array_equal(x.numpy(), before)


BAD = [
    (lambda x: mt.unfold(x[0, 0], 2), ShapeError, "must have 3 or 4 axes", "height, width"),
    (lambda x: mt.unfold(x, 6), ShapeError, "the padded image", "(5, 7)"),
    (lambda x: mt.unfold(x, 0), ArgumentError, "kernel_size must be", "at least 1"),
    (lambda x: mt.unfold(x, 2, stride=(1, 2, 3)), ArgumentError, "stride must be one", "2 numbers"),
    (lambda x: mt.fold(x, 4, 2), ShapeError, "must have 2 or 3 axes", "(2, 3, 5, 7)"),
    (lambda x: mt.fold(x[0], 4, 2), ShapeError, "does not match output_size", "a multiple of 4"),
    (
        lambda x: mt.fold(x[0, :, :4], 4, 2),
        ShapeError,
        "does not match output_size",
        "3 * 3 columns",
    ),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3, 5, 7))
    assert detail in str(caught.value)
