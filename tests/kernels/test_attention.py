"""Attention kernels against the composed version, on a GPU."""

import math

import numpy as np
import pytest
from kernel_checks import assert_kernel_equals_composed, without_kernel

import minitorch_attn as mt
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.backend.random import keep_mask
from minitorch_attn.ops.attention import scaled_dot_product, tiled
from minitorch_attn.ops.attention.causal import CausalAttention
from minitorch_attn.ops.attention.fused import Attention

pytestmark = pytest.mark.gpu
attention = mt.scaled_dot_product_attention
OPS = {f.__name__: f for f in (Attention, CausalAttention, tiled.TiledAttention)}
SIZES = [  # queries, keys, dim, value_dim
    (1, 1, 1, 1),
    (2, 1, 2, 3),
    (1, 2, 3, 2),
    (5, 7, 3, 11),
    (63, 65, 17, 5),
    (64, 64, 16, 32),
    (67, 131, 2, 1),
    (131, 3, 31, 128),
    (2, 67, 128, 127),
    (0, 3, 2, 2),
    (3, 0, 2, 2),
]


def function(name, seed=11, **settings):
    """One of the three ops, whatever the sizes; dropout draws the same mask in every call."""
    settings = {"scale": 0.7, "is_causal": name == "CausalAttention", "dropout_p": 0.0, **settings}

    def call(query, key, value, mask=None):
        if seed is not None:
            mt.manual_seed(seed)
        return OPS[name].apply(query, key, value, mask, **settings)

    return call


def op_alone(name, *inputs, **settings):
    """The op without its kernel."""
    op, kernel = without_kernel(name)
    try:
        return function(name, **settings)(*inputs)
    finally:
        kernels[op] = kernel


def tokens(make, lead, sizes, dtype="float64"):
    queries, keys, dim, value_dim = sizes
    shapes = (queries, dim), (keys, dim), (keys, value_dim)
    return [make(*lead, *shape, dtype=dtype, low=-2, high=2) for shape in shapes]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_sizes(make, sizes, dtype, is_causal):
    call = function("Attention", is_causal=is_causal)
    assert_kernel_equals_composed(call, "Attention", *tokens(make, (2, 3), sizes, dtype))


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (65, 65, 7, 5), (129, 129, 3, 2)])
@pytest.mark.parametrize("name", OPS)
def test_all_three_ops(make, name, sizes, monkeypatch):
    monkeypatch.setattr(tiled, "ROWS", 50)
    inputs = tokens(make, (3,), sizes)
    assert_kernel_equals_composed(function(name), name, *inputs)
    assert_kernel_equals_composed(function(name, dropout_p=0.3), name, *inputs)


@pytest.mark.parametrize("sizes", [(3, 5, 7, 2), (64, 67, 16, 31)])
def test_half_precision(make, sizes):
    inputs = tokens(make, (2,), sizes, "float16")
    call = function("Attention", is_causal=True)
    assert_kernel_equals_composed(call, "Attention", *inputs, tolerance=5e-3)


@pytest.mark.parametrize("lead", [(), (1,), (5,), (0,), (2, 3), (2, 0), (2, 3, 5)])
def test_leading_axes(make, lead):
    inputs = tokens(make, lead, (3, 5, 2, 7))
    assert_kernel_equals_composed(function("Attention"), "Attention", *inputs)


@pytest.mark.parametrize("lead", [(3,), (2, 3), (2, 3, 5)])
@pytest.mark.parametrize("sizes", [(3, 5, 2, 7), (65, 67, 2, 3)])
def test_groups_of_query_heads_share_key_and_value(make, lead, sizes):
    queries, keys, dim, value_dim = sizes
    shared = (*lead[:-1], 1)
    inputs = (
        make(*lead, queries, dim),
        make(*shared, keys, dim),
        make(*shared, keys, value_dim),
    )
    assert_kernel_equals_composed(
        function("Attention", is_causal=True, dropout_p=0.2), "Attention", *inputs
    )


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_grouped_query_attention(make, groups):
    inputs = make(2, 6, 3, 5), make(2, groups, 7, 5), make(2, groups, 7, 4)
    assert_kernel_equals_composed(lambda *a: attention(*a, enable_gqa=True), "Attention", *inputs)


MASKS = [(1,), (7,), (5, 1), (5, 7), (3, 5, 7), (2, 1, 1, 7), (2, 3, 5, 7), (1, 3, 1, 1)]


@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("is_causal", [False, True])
def test_masks(make, rng, device, shape, is_causal):
    inputs = tokens(make, (2, 3), (5, 7, 3, 2))
    bits = rng.random(shape) < 0.6
    call = function("Attention", is_causal=is_causal)
    blocked = mt.tensor(np.where(bits, 0.3, -math.inf), device=device)
    for mask in (mt.tensor(bits, device=device), blocked, make(*shape)):
        assert_kernel_equals_composed(call, "Attention", *inputs, mask)


def test_a_mask_of_several_tiles_and_dropout(make):
    inputs = tokens(make, (2, 3), (67, 131, 3, 2))
    for mask in (make(3, 67, 131), make(2, 1, 1, 131)):
        call = function("Attention", dropout_p=0.4)
        assert_kernel_equals_composed(call, "Attention", *inputs, mask)


def test_strided_inputs(make):
    mask = make(7, 5)

    def call(query, key, value, mask):
        query, key, value = (
            x.transpose(1, 2) for x in (query, key[:, ::2], value.flip(1)[..., 1:])
        )
        return function("Attention")(query, key, value, mask.T)

    inputs = make(2, 5, 3, 2), make(2, 13, 3, 2), make(2, 7, 3, 12)
    assert_kernel_equals_composed(call, "Attention", *inputs, mask)


def test_memory_order_follows_the_inputs(make):
    query, key, value = (make(2, n, 3, 4) for n in (5, 7, 7))
    inputs = [x.transpose(1, 2) for x in (query, key, value)]
    context = function("Attention")(*inputs)
    assert context.transpose(1, 2).is_contiguous()
    for grad in mt.autograd.grad(context.sin().sum(), inputs):
        assert grad.transpose(1, 2).is_contiguous()


def test_a_query_that_attends_to_nothing(make, device):
    query, key, value = tokens(make, (2,), (66, 70, 3, 4), "float32")
    allowed = np.ones((66, 70), bool)
    allowed[1], allowed[65], allowed[2, :69] = False, False, False
    context = function("Attention")(query, key, value, mt.tensor(allowed, device=device))
    grads = mt.autograd.grad(context.sum(), (query, key, value))
    assert all(x.isfinite().all().item() for x in (context, *grads))
    assert not context[:, [1, 65]].any().item() and not grads[0][:, [1, 65]].any().item()
    np.testing.assert_array_equal(context[:, 2].numpy(), value[:, 69].numpy())


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_not_finite_numbers(make, number, which):
    inputs = [x.detach() for x in tokens(make, (2,), (3, 70, 2, 5))]
    inputs[which][1, 1, 1] = number
    found = function("Attention")(*inputs).numpy()
    np.testing.assert_allclose(found, op_alone("Attention", *inputs).numpy(), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_large_scores_do_not_overflow(make, dtype):
    query, key, value = tokens(make, (2,), (5, 130, 4, 3), dtype)
    context = function("Attention", scale=1000.0)(query, key, value)
    grads = mt.autograd.grad(context.sum(), (query, key, value))
    assert all(x.isfinite().all().item() for x in (context, *grads))


@pytest.mark.parametrize("dropout_p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_dropout_draws_the_mask_of_keep_mask(device, dropout_p, seed):
    """With equal scores and the identity as values, the context is the dropout mask."""
    queries, keys = 67, 101
    query, key = mt.zeros(2, queries, 3, device=device), mt.zeros(2, keys, 3, device=device)
    value = mt.eye(keys, device=device).expand(2, keys, keys)
    mt.manual_seed(seed)
    keep_mask((7,), 0.5)  # takes the first counter
    context = attention(query, key, value, dropout_p=dropout_p)
    expected = keep_mask((2, queries, keys), 1 - dropout_p, seed=seed, offset=1)
    np.testing.assert_array_equal(context.numpy() != 0, expected)


def test_later_draws_do_not_depend_on_the_kernel(make, monkeypatch):
    monkeypatch.setattr(tiled, "ROWS", 3)
    inputs = [x.detach() for x in tokens(make, (3,), (7, 7, 2, 2))]
    for name in OPS:
        function(name, dropout_p=0.5)(*inputs)
        state = mt.get_rng_state()
        op_alone(name, *inputs, dropout_p=0.5)
        assert mt.get_rng_state() == state


@pytest.mark.parametrize(
    "shapes",
    [
        ((5, 129), (7, 129), (7, 2)),
        ((5, 2), (7, 2), (7, 129)),
        ((5, 0), (7, 0), (7, 2)),
        ((3, 5, 2), (7, 2), (7, 2)),
        ((1, 5, 2), (3, 7, 2), (3, 7, 2)),
        ((3, 5, 2), (3, 7, 2), (1, 7, 2)),
        ((2, 3, 2, 3, 5, 2),) * 3,
    ],
)
def test_other_shapes_are_left_to_the_op(make, shapes):
    query, key, value = (make(*shape) for shape in shapes)
    context = attention(query, key, value)
    assert context.grad_fn.kernel is context.grad_fn.function
    context.sum().backward()


@pytest.mark.parametrize("needed", range(1, 15))
def test_only_the_gradients_that_are_wanted(make, needed):
    inputs = [*tokens(make, (2,), (67, 71, 3, 2)), make(67, 71)]
    call = function("Attention", dropout_p=0.3, is_causal=True)
    expected = mt.autograd.grad(call(*inputs).sin().sum(), inputs)
    some = [x.detach().requires_grad_(bool(needed >> k & 1)) for k, x in enumerate(inputs)]
    call(*some).sin().sum().backward()
    for x, grad in zip(some, expected, strict=True):
        if x.requires_grad:
            np.testing.assert_array_equal(x.grad.numpy(), grad.numpy())
        else:
            assert x.grad is None


def test_a_checkpoint_draws_the_same_mask_again(make):
    inputs = tokens(make, (2,), (5, 7, 3, 2))
    call, grads = function("Attention", seed=None, dropout_p=0.3), []
    for run in (lambda f, *a: f(*a), mt.utils.checkpoint.checkpoint):
        mt.manual_seed(3)
        grads.append(mt.autograd.grad(run(call, *inputs).sin().sum(), inputs))
    for a, b in zip(*grads, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_memory_is_linear_in_the_tokens(make, monkeypatch):
    monkeypatch.setattr(scaled_dot_product, "tiles_pay", lambda shape: True)
    query, key, value = tokens(make, (), (513, 513, 2, 2), "float32")
    context = attention(query, key, value, is_causal=True, dropout_p=0.1)
    assert type(context.grad_fn.intermediate) is tuple
    assert sum(x.size for x in context.grad_fn.intermediate) == 513


def test_equal_bit_for_bit_in_every_run(make):
    inputs = tokens(make, (2,), (131, 131, 5, 3), "float32")
    found = []
    for _ in range(2):
        context = function("Attention", dropout_p=0.1)(*inputs)
        found.append([context, *mt.autograd.grad(context.sin().sum(), inputs)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
