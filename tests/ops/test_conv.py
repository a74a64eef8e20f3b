"""Convolutions and transposed convolutions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.ops import conv


def pairs(value, axes):
    """(before, after) per axis, of a padding given as one number, one per axis, or pairs."""
    value = (value,) * axes if isinstance(value, int) else value
    return [(v, v) if isinstance(v, int) else v for v in value]


def loop_conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """One product at a time, by the definition; `padding` may hold (before, after) per axis."""
    axes = weight.ndim - 2
    stride, dilation = ([v] * axes if isinstance(v, int) else v for v in (stride, dilation))
    x = np.pad(x, [(0, 0), (0, 0), *pairs(padding, axes)])
    kernel, ins, outs = weight.shape[2:], weight.shape[1], weight.shape[0] // groups
    numbers = zip(x.shape[2:], kernel, stride, dilation, strict=True)
    places = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in numbers]
    y = np.zeros((x.shape[0], weight.shape[0], *places), x.dtype)
    for b, m, *o in np.ndindex(*y.shape):
        y[(b, m, *o)] = 0 if bias is None else bias[m]
        for c, *k in np.ndindex(ins, *kernel):
            i = [p * s + q * d for p, s, q, d in zip(o, stride, k, dilation, strict=True)]
            y[(b, m, *o)] += weight[(m, c, *k)] * x[(b, m // outs * ins + c, *i)]
    return y


def loop_transposed(g, weight, bias=None, stride=1, padding=0, extra=0, groups=1, dilation=1):
    """Each input element adds a kernel to the output."""
    axes = weight.ndim - 2
    stride, padding, extra, dilation = (
        [v] * axes if isinstance(v, int) else v for v in (stride, padding, extra, dilation)
    )
    kernel, ins, outs = weight.shape[2:], weight.shape[0] // groups, weight.shape[1]
    numbers = zip(g.shape[2:], stride, padding, dilation, kernel, extra, strict=True)
    size = [(n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, s, p, d, k, e in numbers]
    x = np.zeros((g.shape[0], outs * groups, *size), g.dtype)
    for b, m, *o in np.ndindex(*g.shape):
        for c, *k in np.ndindex(outs, *kernel):
            numbers = zip(o, stride, k, dilation, padding, strict=True)
            i = [p * s + q * d - a for p, s, q, d, a in numbers]
            if all(0 <= j < n for j, n in zip(i, size, strict=True)):
                x[(b, m // ins * outs + c, *i)] += g[(b, m, *o)] * weight[(m, c, *k)]
    return x if bias is None else x + bias.reshape(-1, *(1,) * axes)


def conv_case(name, shape, weight, more=(), peer=None, **how):
    function = getattr(mt, f"conv{len(weight) - 2}d")
    reference = loop_conv if peer is None else lambda *a: loop_conv(*a, **peer)
    return Case(
        name,
        lambda *a: function(*a, **how),
        reference if peer is not None else lambda *a: loop_conv(*a, **how),
        shape, weight, *more,
    )  # fmt: skip


def transposed_case(name, shape, weight, more=(), extra=0, **how):
    function = getattr(mt, f"conv_transpose{len(weight) - 2}d")
    return Case(
        name,
        lambda *a: function(*a, output_padding=extra, **how),
        lambda *a: loop_transposed(*a, extra=extra, **how),
        shape, weight, *more,
    )  # fmt: skip


CASES = [
    conv_case("1d", (2, 3, 7), (5, 3, 2), [(5,)]),
    conv_case("1d strided", (2, 3, 11), (2, 3, 3), stride=2, padding=1, dilation=2),
    conv_case("2d", (2, 3, 5, 7), (2, 3, 3, 2), [(2,)]),
    conv_case("2d, a number per axis", (1, 2, 7, 5), (3, 2, 3, 2), [(3,)], stride=(2, 1),
              padding=(1, 2), dilation=(1, 3)),
    conv_case("2d groups", (2, 6, 5, 3), (4, 3, 2, 3), [(4,)], groups=2, padding=1),
    conv_case("2d, one channel per group", (2, 3, 5, 3), (6, 1, 3, 2), groups=3),
    conv_case("1d depthwise", (2, 5, 7), (5, 1, 3), [(5,)], stride=2, padding=1, groups=5),
    conv_case("2d depthwise", (2, 4, 5, 7), (4, 1, 3, 2), [(4,)], groups=4, stride=(1, 3),
              padding=(2, 1), dilation=(2, 1)),
    conv_case("3d depthwise", (2, 5, 3, 4, 2), (5, 1, 3, 3, 1), groups=5, stride=(1, 2, 1),
              padding=(1, 1, 0)),
    conv_case("2d depthwise, kernels larger than the image", (2, 4, 1, 2), (4, 1, 3, 5), groups=4,
              padding=(1, 2)),
    conv_case("2d depthwise, rows as wide as their windows", (2, 5, 7, 11), (5, 1, 3, 3), groups=5,
              padding=1),
    conv_case("2d depthwise, stride and dilation", (1, 4, 13, 11), (4, 1, 4, 3), groups=4,
              stride=(2, 4), dilation=(3, 2), padding=(4, 1)),
    conv_case("2d patches", (2, 3, 6, 4), (5, 3, 3, 2), [(5,)], stride=(3, 2)),
    conv_case("2d pointwise", (2, 3, 5, 2), (7, 3, 1, 1), [(7,)]),
    conv_case("2d pointwise groups", (2, 6, 5, 2), (4, 3, 1, 1), groups=2),
    conv_case("2d, a pointwise kernel with padding", (2, 3, 3, 2), (2, 3, 1, 1), padding=1),
    conv_case("2d, a pointwise kernel with a stride", (2, 3, 5, 3), (2, 3, 1, 1), stride=2),
    conv_case("2d valid", (1, 2, 5, 3), (3, 2, 3, 2), peer={}, padding="valid"),
    conv_case("2d same", (1, 2, 5, 3), (3, 2, 3, 2), [(3,)], padding="same",
              peer={"padding": [(1, 1), (0, 1)]}),
    conv_case("1d same, dilated", (2, 2, 7), (3, 2, 4), padding="same", dilation=3,
              peer={"padding": [(4, 5)], "dilation": 3}),
    conv_case("3d", (2, 2, 3, 5, 3), (3, 2, 2, 3, 1), [(3,)], stride=(1, 2, 1)),
    conv_case("of no images", (0, 3, 5, 7), (2, 3, 3, 2), [(2,)]),
    transposed_case("transposed 1d", (2, 3, 5), (3, 2, 3), [(2,)], stride=2, padding=1),
    transposed_case("transposed 2d", (2, 3, 3, 2), (3, 5, 2, 3), [(5,)]),
    transposed_case("transposed 2d, all settings", (1, 4, 3, 5), (4, 3, 3, 2), [(6,)],
                    stride=(3, 2), padding=(2, 1), dilation=(1, 3), groups=2, extra=(2, 1)),
    transposed_case("transposed, larger than its strides", (2, 2, 3), (2, 3, 2), extra=2,
                    dilation=3),
    transposed_case("transposed, with more padding than kernel", (1, 2, 7, 5), (2, 2, 3, 1),
                    padding=(3, 1)),
    transposed_case("transposed, mirrored kernels, groups", (2, 4, 5, 3), (4, 3, 3, 2), [(6,)],
                    padding=(1, 0), dilation=(2, 3), groups=2, extra=(1, 2)),
    transposed_case("transposed depthwise, with more padding than kernel", (2, 4, 7, 5),
                    (4, 1, 3, 2), padding=(4, 2), stride=(2, 1), groups=4),
    transposed_case("transposed depthwise, all settings", (2, 4, 3, 5), (4, 1, 3, 2), [(4,)],
                    stride=(5, 2), padding=(2, 1), dilation=(2, 4), groups=4, extra=(4, 1)),
    transposed_case("transposed pointwise", (2, 4, 3, 5), (4, 3, 1, 1), [(6,)], groups=2),
    transposed_case("transposed 3d", (1, 2, 3, 2, 1), (2, 3, 1, 2, 3), [(3,)], stride=2),
    transposed_case("transposed of no images", (0, 3, 3, 2), (3, 5, 2, 3), [(5,)]),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("limit", [1, 1800, 3000])
def test_the_columns_of_some_images_at_a_time(rng, device, monkeypatch, limit):
    monkeypatch.setattr(conv, "_COLUMNS", limit)  # bytes; an image has 864
    x, weight, bias = rng.normal(size=(5, 2, 4, 5)), rng.normal(size=(3, 2, 2, 3)), np.arange(3.0)
    inputs = [mt.tensor(a, device=device, requires_grad=True) for a in (x, weight, bias)]
    y = mt.conv2d(*inputs, stride=(2, 1), padding=(1, 0))
    expected = loop_conv(x, weight, bias, stride=(2, 1), padding=(1, 0))
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)
    assert mt.autograd.gradcheck(lambda *a: mt.conv2d(*a, stride=(2, 1), padding=(1, 0)), inputs)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_geometry(device, data):
    axes, groups = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    each = lambda low, high: data.draw(st.tuples(*[st.integers(low, high)] * axes))  # noqa: E731
    kernel, stride, padding, dilation = each(1, 3), each(1, 3), each(0, 2), each(1, 2)
    space = [n + d * (k - 1) for n, k, d in zip(each(1, 5), kernel, dilation, strict=True)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.normal(size=(data.draw(st.integers(0, 2)), 2 * groups, *space))
    weight = rng.normal(size=(3 * groups, 2, *kernel))
    y = getattr(mt, f"conv{axes}d")(
        mt.tensor(x, device=device), mt.tensor(weight, device=device), None, stride, padding,
        dilation, groups,
    )  # fmt: skip
    expected = loop_conv(x, weight, None, stride, padding, dilation, groups)
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)
    assert y.is_contiguous()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_transpose_is_the_adjoint(device, data):
    """<conv(x), g> = <x, conv_transpose(g)> where the sizes go back and forth."""
    axes = data.draw(st.integers(1, 2))
    each = lambda low, high: data.draw(st.tuples(*[st.integers(low, high)] * axes))  # noqa: E731
    kernel, stride, dilation = each(1, 3), each(1, 3), each(1, 2)
    padding = [
        data.draw(st.integers(0, d * (k - 1))) for k, d in zip(kernel, dilation, strict=True)
    ]
    extra = [data.draw(st.integers(0, s - 1)) for s in stride]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    g = rng.normal(size=(2, 3, *each(2, 4)))
    weight = mt.tensor(rng.normal(size=(3, 2, *kernel)), device=device)
    spread = getattr(mt, f"conv_transpose{axes}d")
    try:
        back = spread(
            mt.tensor(g, device=device), weight, None, stride, padding, extra, 1, dilation
        )
    except ShapeError:
        return
    x = rng.normal(size=back.shape)
    y = getattr(mt, f"conv{axes}d")(
        mt.tensor(x, device=device), weight, None, stride, tuple(padding), dilation
    )
    assert y.shape == g.shape
    np.testing.assert_allclose((y.numpy() * g).sum(), (x * back.numpy()).sum(), atol=1e-10)


@pytest.mark.parametrize("channels", [(3, 5), (5, 3)])
def test_mirrored_kernels_give_the_transposed_convolution(rng, device, monkeypatch, channels):
    outputs, inputs = channels
    g = mt.tensor(rng.normal(size=(2, outputs, 7, 4)), device=device)
    weight = mt.tensor(rng.normal(size=(outputs, inputs, 3, 2)), device=device)
    found = []
    for mirrored in (True, False):
        monkeypatch.setattr(conv, "reads_columns", lambda *_, mirrored=mirrored: mirrored)
        y = mt.conv_transpose2d(g, weight, padding=(1, 0), dilation=(2, 3), output_padding=(1, 2))
        found.append(y.numpy())
    np.testing.assert_allclose(*found, atol=1e-12)
    assert y.is_contiguous()


def test_an_image_without_batch(make):
    x, weight, bias = make(3, 5, 7), make(2, 3, 2, 3), make(2)
    alone = mt.conv2d(x, weight, bias, padding=1)
    np.testing.assert_array_equal(
        alone.detach().numpy(),
        mt.conv2d(x.unsqueeze(0), weight, bias, padding=1).detach().numpy()[0],
    )
    assert mt.conv_transpose2d(x, make(3, 2, 2, 3)).shape == (2, 6, 9)
    assert mt.conv1d(make(2, 5), make(3, 2, 2)).shape == (3, 4)


def test_strided_inputs(make):
    x, weight = make(5, 7, 3, 2).permute(3, 2, 1, 0), make(3, 2, 3, 2).permute(3, 0, 2, 1)
    y = mt.conv2d(x, weight)  # (2, 3, 7, 5) and (2, 3, 3, 2)
    np.testing.assert_allclose(
        y.detach().numpy(), loop_conv(x.detach().numpy(), weight.detach().numpy()), atol=1e-12
    )


def test_only_the_gradients_that_are_wanted(make):
    x, weight, bias = make(2, 3, 5), make(2, 3, 2, requires_grad=False), make(2)
    mt.conv1d(x, weight, bias).sum().backward()
    assert weight.grad is None and x.grad.shape == x.shape
    np.testing.assert_allclose(bias.grad.numpy(), [8.0, 8.0])
    x, weight = make(2, 3, 5, requires_grad=False), make(3, 2, 2)
    mt.conv_transpose1d(x, weight).sum().backward()
    expected = np.repeat(x.numpy().sum(axis=(0, 2))[:, None], 4, 1).reshape(3, 2, 2)
    np.testing.assert_allclose(weight.grad.numpy(), expected)
    assert x.grad is None


def test_a_step_needs_no_synchronisation(make):
    x, weight, cotangent = make(2, 3, 5, 5), make(2, 3, 2, 2), make(2, 2, 4, 4)
    with forbid_sync():
        mt.conv2d(x, weight).backward(cotangent)
        mt.conv_transpose2d(cotangent, weight).sum().backward()


BAD = [
    (lambda x, w: mt.conv2d(x[0, 0], w), ShapeError, "3 or 4 axes", "channel, height, width"),
    (lambda x, w: mt.conv2d(x, w[:, :, 0]), ShapeError, "weight must have", "weight (2, 3, 3)"),
    (lambda x, w: mt.conv2d(x[:, :2], w), ShapeError, "do not match", "3 channels"),
    (lambda x, w: mt.conv2d(x, w, groups=3), ShapeError, "do not match", "groups=3"),
    (lambda x, w: mt.conv2d(x, w, groups=0), ArgumentError, "groups", "positive integer"),
    (lambda x, w: mt.conv2d(x, w, w[0, 0, 0, :1]), ShapeError, "bias must have", "bias (1,)"),
    (lambda x, w: mt.conv2d(x, w.float()), DTypeError, "the same dtype", "weight float32"),
    (lambda x, w: mt.conv2d(x, w, w[:, 0, 0, 0].float()), DTypeError, "the same dtype",
     "bias float32"),
    (lambda x, w: mt.conv2d(x, w, dilation=3), ShapeError, "larger than", "dilation=(3, 3)"),
    (lambda x, w: mt.conv2d(x, w, stride=0), ArgumentError, "stride must be", "at least 1"),
    (lambda x, w: mt.conv2d(x, w, padding=-1), ArgumentError, "padding must be", "at least 0"),
    (lambda x, w: mt.conv2d(x, w, stride=(1, 1, 1)), ArgumentError, "one per", "2 numbers"),
    (lambda x, w: mt.conv2d(x, w, padding="full"), ArgumentError, "padding must be", "'same'"),
    (lambda x, w: mt.conv2d(x, w, padding="same", stride=2), ArgumentError, "stride must be 1",
     "(2, 2)"),
    (lambda x, w: mt.conv_transpose2d(x, w), ShapeError, "do not match", "2 channels"),
    (lambda x, w: mt.conv_transpose2d(x, w.swapaxes(0, 1), output_padding=1), ArgumentError,
     "output_padding must be", "less than the stride"),
    (lambda x, w: mt.conv_transpose2d(x, w.swapaxes(0, 1), padding=4), ShapeError, "must leave",
     "padding=(4, 4)"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(1, 3, 5, 5), make(2, 3, 3, 3))
    assert detail in str(caught.value)


@pytest.mark.parametrize(
    ("layer", "shape", "order"),
    [(mt.nn.Conv1d, (1, 7, 3), "0, 2, 1"), (mt.nn.Conv2d, (1, 7, 7, 3), "0, 3, 1, 2"),
     (mt.nn.ConvTranspose2d, (1, 7, 7, 3), "0, 3, 1, 2")],
)  # fmt: skip
def test_channels_on_the_last_axis_are_recognized(layer, shape, order):
    x, conv = mt.ones(*shape), layer(3, 5, 2)
    with pytest.raises(ShapeError) as caught:
        conv(x)
    assert f"x.permute({order})" in caught.value.hint
    assert conv(x.permute(*map(int, order.split(", ")))).shape[1] == 5
    with pytest.raises(ShapeError) as caught:
        conv(mt.ones(*shape[:-1], 2))
    assert "use a weight of shape" in caught.value.hint
