"""layer_norm and rms_norm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import DTypeError, ShapeError
from minitorch_attn.ops.layer_norm import LayerNorm, RMSNorm


def loop_layer_norm(x, weight=None, bias=None, *, axes=1, eps=1e-5):
    """One row at a time, by the definition, in float64."""
    shape = x.shape[x.ndim - axes :]
    n = int(np.prod(shape))
    y = np.empty(x.shape)
    for row in np.ndindex(x.shape[: x.ndim - axes]):
        values = [float(v) for v in x[row].ravel()]
        mean = sum(values) / n
        variance = sum((v - mean) ** 2 for v in values) / n
        y[row] = np.reshape([(v - mean) / (variance + eps) ** 0.5 for v in values], shape)
        y[row] *= 1 if weight is None else weight
        y[row] += 0 if bias is None else bias
    return y.astype(x.dtype)


def loop_rms_norm(x, weight=None, *, axes=1, eps=1e-5):
    shape = x.shape[x.ndim - axes :]
    y = np.empty(x.shape)
    for row in np.ndindex(x.shape[: x.ndim - axes]):
        values = [float(v) for v in x[row].ravel()]
        root = (sum(v * v for v in values) / len(values) + eps) ** 0.5
        y[row] = np.reshape([v / root for v in values], shape) * (1 if weight is None else weight)
    return y.astype(x.dtype)


CASES = [
    Case("layer_norm", lambda x, w, b: mt.layer_norm(x, (5,), w, b), loop_layer_norm,
         (3, 5), (5,), (5,)),
    Case("layer_norm, one row", lambda x, w, b: mt.layer_norm(x, [7], w, b), loop_layer_norm,
         (7,), (7,), (7,)),
    Case("layer_norm over two axes", lambda x, w, b: mt.layer_norm(x, (3, 5), w, b),
         lambda x, w, b: loop_layer_norm(x, w, b, axes=2), (2, 3, 5), (3, 5), (3, 5)),
    Case("layer_norm, plain", lambda x: mt.layer_norm(x, (5,)), loop_layer_norm, (2, 3, 5)),
    Case("layer_norm without bias", lambda x, w: mt.layer_norm(x, (5,), w), loop_layer_norm,
         (3, 5), (5,)),
    Case("layer_norm without weight", lambda x, b: mt.layer_norm(x, (5,), None, b),
         lambda x, b: loop_layer_norm(x, None, b), (3, 5), (5,)),
    Case("layer_norm, large eps", lambda x, w, b: mt.layer_norm(x, (5,), w, b, eps=0.5),
         lambda x, w, b: loop_layer_norm(x, w, b, eps=0.5), (3, 5), (5,), (5,)),
    Case("layer_norm of a transpose", lambda x, w: mt.layer_norm(x.transpose(0, 1), (5,), w),
         lambda x, w: loop_layer_norm(x.T, w), (5, 3), (5,)),
    Case("layer_norm of no rows", lambda x, w, b: mt.layer_norm(x, (5,), w, b),
         lambda x, w, b: x, (0, 5), (5,), (5,)),
    Case("layer_norm of empty rows", lambda x: mt.layer_norm(x, (0,)), lambda x: x, (3, 0)),
    Case("rms_norm", lambda x, w: mt.rms_norm(x, (5,), w, 1e-5), loop_rms_norm, (3, 5), (5,)),
    Case("rms_norm, plain", lambda x: mt.rms_norm(x, (5,), eps=1e-5), loop_rms_norm, (2, 3, 5)),
    Case("rms_norm over two axes", lambda x, w: mt.rms_norm(x, (3, 5), w, 0.1),
         lambda x, w: loop_rms_norm(x, w, axes=2, eps=0.1), (2, 3, 5), (3, 5)),
    Case("rms_norm of no rows", lambda x, w: mt.rms_norm(x, (5,), w), lambda x, w: x,
         (0, 5), (5,)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@settings(deadline=None, max_examples=40)
@given(
    lead=st.lists(st.integers(0, 4), max_size=3),
    row=st.lists(st.integers(1, 5), min_size=1, max_size=2),
    with_weight=st.booleans(),
    with_bias=st.booleans(),
    shift=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 999),
)
def test_fused_equals_composed(device, lead, row, with_weight, with_bias, shift, seed):
    rng = np.random.default_rng(seed)
    hosts = [rng.standard_normal((*lead, *row)) + shift]
    hosts += [rng.standard_normal(row) if wanted else None for wanted in (with_weight, with_bias)]
    cotangent = mt.tensor(rng.standard_normal((*lead, *row)), device=device)
    for function, count in ((LayerNorm, 3), (RMSNorm, 2)):
        results = []
        for run in (function.apply, lambda *a, f=function, **s: f.composed(None, *a, **s)):
            inputs = [
                None if host is None else mt.tensor(host, device=device, requires_grad=True)
                for host in hosts[:count]
            ]
            y = run(*inputs, eps=1e-3, row_axes=len(row))
            y.backward(cotangent)
            results.append([y.numpy()] + [x.grad.numpy() for x in inputs if x is not None])
        for fused, composed in zip(*results, strict=True):
            np.testing.assert_allclose(fused, composed, rtol=1e-9, atol=1e-9)


def test_rows_come_out_with_mean_0_and_variance_1(device, rng):
    x = mt.tensor(rng.standard_normal((4, 64)) * 7 + 1e4, device=device)
    y = mt.layer_norm(x, (64,)).numpy()
    np.testing.assert_allclose(y.mean(-1), np.zeros(4), atol=1e-9)
    np.testing.assert_allclose(y.var(-1), np.ones(4), rtol=1e-5)
    root = (mt.rms_norm(x, (64,)).numpy() ** 2).mean(-1)
    np.testing.assert_allclose(root, np.ones(4), rtol=1e-6)


def test_float32_far_from_zero(device, rng):
    host = rng.standard_normal((4, 64)) + 1e4
    y = mt.layer_norm(mt.tensor(host.astype("float32"), device=device), (64,)).numpy()
    np.testing.assert_allclose(y, loop_layer_norm(host), atol=2e-3)


@pytest.mark.parametrize("function", [mt.layer_norm, mt.rms_norm])
def test_float16_holds_its_sums_in_float32(device, rng, function):
    host = (rng.standard_normal((3, 64)) * 100).astype("float16")  # squares beyond 65504
    x = mt.tensor(host, device=device, requires_grad=True)
    y = function(x, (64,), mt.ones(64, device=device).half())
    y.sum().backward()
    wide = function(mt.tensor(host.astype("float64"), device=device), (64,))
    assert y.dtype == x.grad.dtype == mt.float16
    np.testing.assert_allclose(y.numpy(), wide.numpy(), atol=2e-3)


def test_the_gradient_is_blind_to_a_shift_and_to_a_stretch(make):
    x, cotangent = make(3, 7), make(3, 7, requires_grad=False)
    mt.layer_norm(x, (7,), eps=0.0).backward(cotangent)
    grad, values = x.grad.numpy(), x.numpy()
    np.testing.assert_allclose(grad.sum(-1), np.zeros(3), atol=1e-12)
    np.testing.assert_allclose((grad * values).sum(-1), np.zeros(3), atol=1e-12)


def test_default_eps_of_rms_norm_is_that_of_the_dtype(device):
    for dtype in ("float32", "float64"):
        x = np.array([[1e-4, 2e-4]], dtype)
        expected = loop_rms_norm(x, eps=float(np.finfo(dtype).eps))
        got = mt.rms_norm(mt.tensor(x, device=device), (2,))
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5)


def test_rms_norm_takes_a_weight_of_another_dtype(make):
    y = mt.rms_norm(make(2, 3, dtype="float32"), (3,), make(3, dtype="float64"))
    assert y.dtype == mt.float32


def test_only_the_gradients_that_are_wanted(make):
    x, frozen = make(3, 5), make(3, 5, requires_grad=False)
    weight, bias, cotangent = make(5), make(5), make(3, 5, requires_grad=False)
    mt.layer_norm(x, (5,), weight, bias).backward(cotangent)
    mt.layer_norm(frozen, (5,), weight, bias).sum().backward()
    assert frozen.grad is None and x.grad.shape == (3, 5)
    np.testing.assert_allclose(bias.grad.numpy(), cotangent.numpy().sum(0) + 3)
    fixed_weight, fixed_bias = weight.detach(), bias.detach()
    again = mt.tensor(x.numpy(), device=x.device, requires_grad=True)
    mt.layer_norm(again, (5,), fixed_weight, fixed_bias).backward(cotangent)
    np.testing.assert_allclose(again.grad.numpy(), x.grad.numpy(), rtol=1e-12)
    assert fixed_weight.grad is None and fixed_bias.grad is None
    frozen, weight = make(3, 5, requires_grad=False), make(5)
    mt.rms_norm(frozen, (5,), weight, 0.1).backward(cotangent)
    unit = loop_rms_norm(frozen.numpy(), eps=0.1)
    np.testing.assert_allclose(weight.grad.numpy(), (cotangent.numpy() * unit).sum(0))


def test_inputs_are_left_alone(make):
    inputs = make(3, 5), make(5), make(5)
    before = [x.numpy().copy() for x in inputs]
    cotangent = make(3, 5, requires_grad=False)
    kept = cotangent.numpy().copy()
    mt.layer_norm(inputs[0], (5,), *inputs[1:]).backward(cotangent)
    mt.rms_norm(inputs[0], (5,), inputs[1]).backward(cotangent)
    for x, host in zip((*inputs, cotangent), (*before, kept), strict=True):
        np.testing.assert_array_equal(x.numpy(), host)


def test_a_step_needs_no_synchronisation(make):
    x, weight, bias = make(3, 5), make(5), make(5)
    cotangent = make(3, 5, requires_grad=False)
    with forbid_sync():
        mt.layer_norm(x, (5,), weight, bias).backward(cotangent)
        mt.rms_norm(x, (5,), weight).backward(cotangent)


def test_bad_arguments(make, device):
    x = make(3, 5)
    for function in (mt.layer_norm, mt.rms_norm):
        with pytest.raises(ShapeError, match="last axes of input do not match"):
            function(x, (3,))
        with pytest.raises(ShapeError, match="last axes of input do not match"):
            function(x, ())
        with pytest.raises(ShapeError, match="last axes of input do not match"):
            function(x, (2, 3, 5))
        with pytest.raises(ShapeError, match=r"the shape of weight does not match(.|\n)*\(4,\)"):
            function(x, (5,), make(4))
        with pytest.raises(DTypeError, match="floating-point"):
            function(mt.tensor([[1, 2]], device=device), (2,))
    with pytest.raises(DTypeError, match="bias and input have different dtypes"):
        mt.layer_norm(x, (5,), None, make(5, dtype="float32"))
