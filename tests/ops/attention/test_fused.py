"""Attention: fused, composed and plain-loop versions agree, and shared properties hold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.nn import masks

attention = mt.scaled_dot_product_attention
HEADS, QUERIES, KEYS, DIM, VALUE_DIM = 2, 5, 7, 3, 4


def loop_attention(query, key, value, mask=None, is_causal=False, scale=None):
    """One query and one key at a time; heads of key and value serve groups of query heads."""
    heads, groups = query.shape[-3], key.shape[-3]
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    lead, sizes = query.shape[:-2], (query.shape[-2], key.shape[-2])
    if mask is None:
        mask = np.ones(sizes, bool)
    bias = mask if mask.dtype != bool else np.where(mask, 0.0, -np.inf)
    bias = np.broadcast_to(bias, (*lead, *sizes))
    context = np.zeros((*lead, sizes[0], value.shape[-1]))
    for index in np.ndindex(lead):
        shared = (*index[:-1], index[-1] * groups // heads)
        for i in range(sizes[0]):
            last = i if is_causal else sizes[1]
            scores = [
                scale * sum(query[index][i] * key[shared][j]) + bias[index][i, j]
                if j <= last
                else -np.inf
                for j in range(sizes[1])
            ]
            top = max(scores, default=-np.inf)
            if top == -np.inf:
                continue  # nothing to attend to
            weights = [math.exp(s - top) for s in scores]
            for j, weight in enumerate(weights):
                context[index][i] += weight / sum(weights) * value[shared][j]
    return context


def drawn(rng, *, batch=(2,), heads=HEADS, groups=HEADS, queries=QUERIES, keys=KEYS, dim=DIM,
          value_dim=VALUE_DIM):  # fmt: skip
    """query, key and value as NumPy arrays."""
    shapes = (heads, queries, dim), (groups, keys, dim), (groups, keys, value_dim)
    return [rng.uniform(-2, 2, (*batch, *shape)) for shape in shapes]


def placed(arrays, device, requires_grad=True):
    return [mt.tensor(a, device=device, requires_grad=requires_grad) for a in arrays]


def bool_mask(rng, *shape):
    mask = rng.random(shape) < 0.6
    mask[..., 0, :] = False  # one query in each block may attend to nothing
    return mask


SCORES = (2, HEADS, QUERIES, KEYS)
MASKS = {
    "no mask": lambda rng: None,
    "bool (query, key)": lambda rng: bool_mask(rng, QUERIES, KEYS),
    "bool, one per head": lambda rng: bool_mask(rng, HEADS, QUERIES, KEYS),
    "bool, in full": lambda rng: bool_mask(rng, *SCORES),
    "bool, keys of a batch": lambda rng: rng.random((2, 1, 1, KEYS)) < 0.6,
    "bool (key)": lambda rng: rng.random(KEYS) < 0.6,
    "float (query, key)": lambda rng: rng.standard_normal((QUERIES, KEYS)),
    "float, one per head": lambda rng: rng.standard_normal((HEADS, QUERIES, KEYS)),
    "float, in full": lambda rng: rng.standard_normal(SCORES),
    "float, per query": lambda rng: rng.standard_normal((2, 1, QUERIES, 1)),
    "float with -inf": lambda rng: np.where(bool_mask(rng, QUERIES, KEYS), 0.5, -np.inf),
}
CASES = [
    (name, causal, groups, scale)
    for name in MASKS
    for causal, groups, scale in ((False, HEADS, None), (True, HEADS, 0.3), (False, 1, None))
]


@pytest.mark.parametrize(("name", "causal", "groups", "scale"), CASES)
def test_fused_and_composed_against_a_plain_loop(device, rng, name, causal, groups, scale):
    arrays, mask = drawn(rng, groups=groups), MASKS[name](rng)
    expected = loop_attention(*arrays, mask, causal, scale)
    cotangent = rng.standard_normal(expected.shape)
    results = []
    for function in (attention, mt.attention_composed):
        inputs = placed(arrays, device)
        if mask is not None:
            inputs.append(mt.tensor(mask, device=device, requires_grad=mask.dtype != bool))
        context = function(*inputs, is_causal=causal, scale=scale, enable_gqa=groups != HEADS)
        np.testing.assert_allclose(context.numpy(), expected, rtol=1e-12, atol=1e-12)
        context.backward(mt.tensor(cotangent, device=device))
        results.append([x.grad.numpy() for x in inputs if x.requires_grad])
    for fused, composed in zip(*results, strict=True):
        assert np.isfinite(fused).all()
        np.testing.assert_allclose(fused, composed, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("causal", "dropout_p"), [(False, 0.0), (True, 0.0), (False, 0.3)])
def test_gradients(device, rng, name, causal, dropout_p):
    inputs, mask = placed(drawn(rng, batch=(2,)), device), MASKS[name](rng)
    if mask is not None:
        mask = np.where(np.isinf(mask), -30.0, mask) if mask.dtype != bool else mask
        inputs.append(mt.tensor(mask, device=device, requires_grad=mask.dtype != bool))

    def run(*inputs):
        return attention(*inputs, is_causal=causal, dropout_p=dropout_p)

    mt.manual_seed(3)
    assert gradcheck(run, inputs, fast=True)
    assert gradgradcheck(run, inputs, fast=True)


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_gradients_of_grouped_queries(device, rng, groups):
    inputs = placed(drawn(rng, batch=(), heads=6, groups=groups, queries=2, keys=3), device)
    inputs.append(mt.tensor(rng.standard_normal((6, 2, 3)), device=device, requires_grad=True))
    assert gradcheck(lambda *a: attention(*a, enable_gqa=True), inputs)
    assert gradgradcheck(lambda *a: attention(*a, enable_gqa=True), inputs, fast=True)


def test_every_entry_of_the_gradient(device, rng):
    inputs = placed(drawn(rng, batch=(), queries=3, keys=5), device)
    assert gradcheck(lambda *a: attention(*a, is_causal=True), inputs)
    assert gradgradcheck(lambda *a: attention(*a, is_causal=True), inputs)


LEADS = [((), (), ()), ((2,), (2,), (2,)), ((2, 1), (3,), (3,)), ((), (2, 3), (1, 3)),
         ((5, 1, 2), (1, 3, 1), (3, 2)), ((2,), (2,), (3, 2))]  # fmt: skip


@pytest.mark.parametrize("leads", LEADS)
def test_leading_axes_broadcast(device, rng, leads):
    shapes = (QUERIES, DIM), (KEYS, DIM), (KEYS, VALUE_DIM)
    arrays = [rng.standard_normal(lead + s) for lead, s in zip(leads, shapes, strict=True)]
    lead = np.broadcast_shapes(*leads)
    inputs = placed(arrays, device)
    context = attention(*inputs)
    mt.manual_seed(1)
    dropped = attention(*inputs, dropout_p=0.5).numpy()
    mt.manual_seed(1)
    composed = mt.attention_composed(*inputs, dropout_p=0.5).numpy()
    np.testing.assert_allclose(dropped, composed, rtol=1e-12, atol=1e-12)
    full = [
        np.broadcast_to(a, (*lead, *s)).reshape(-1, 1, *s)
        for a, s in zip(arrays, shapes, strict=True)
    ]
    expected = loop_attention(*full).reshape(*lead, QUERIES, VALUE_DIM)
    np.testing.assert_allclose(context.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert gradcheck(attention, inputs, fast=True)
    assert gradgradcheck(attention, inputs, fast=True)


def test_grouped_queries_are_repeated_heads(device, rng):
    for groups in (1, 2, 3, 6):
        query, key, value = drawn(rng, heads=6, groups=groups)
        repeated = (np.repeat(x, 6 // groups, 1) for x in (key, value))
        expected = attention(*placed((query, *repeated), device)).numpy()
        got = attention(*placed((query, key, value), device), enable_gqa=True).numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    query, key, value = placed(drawn(rng, heads=6, groups=2), device)
    np.testing.assert_allclose(
        attention(query, key, value[:, :1], enable_gqa=True).numpy(),
        attention(query, key, value[:, :1].expand(2, 2, KEYS, VALUE_DIM), enable_gqa=True).numpy(),
    )


def test_a_query_that_may_attend_to_nothing(device, rng):
    blocked = np.ones((QUERIES, KEYS), bool)
    blocked[2] = False
    for mask in (blocked, np.where(blocked, 0.0, -np.inf)):
        for function in (attention, mt.attention_composed):
            inputs = placed(drawn(rng), device)
            additive = mt.tensor(mask, device=device, requires_grad=mask.dtype != bool)
            context = function(*inputs, additive)
            context.backward(mt.tensor(rng.standard_normal(context.shape), device=device))
            assert (context.numpy()[..., 2, :] == 0).all()
            assert (inputs[0].grad.numpy()[..., 2, :] == 0).all()
            assert all(np.isfinite(x.grad.numpy()).all() for x in inputs)
            if additive.requires_grad:
                assert (additive.grad.numpy()[2] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_scores(device, rng, dtype):
    arrays = [100 * a.astype(dtype) for a in drawn(rng, dim=5)]
    inputs = placed(arrays, device)
    context = attention(*inputs, is_causal=True)
    scores = arrays[0] @ arrays[1].swapaxes(-1, -2) / math.sqrt(5)
    assert abs(scores).max() > 1e4
    expected = loop_attention(*(a.astype("float64") for a in arrays), is_causal=True)
    tolerance = 1e-9 if dtype == "float64" else 0.2  # rounding moves a score of 1e4 by 1e-3
    np.testing.assert_allclose(context.numpy(), expected, rtol=tolerance, atol=tolerance)
    context.backward(mt.tensor(rng.standard_normal(context.shape).astype(dtype), device=device))
    assert all(np.isfinite(x.grad.numpy()).all() for x in inputs)


def test_weights_sum_to_one(device, rng):
    query, key, value = drawn(rng)
    ones = np.ones_like(value)
    for options in ({}, {"is_causal": True}, {"scale": 5.0}):
        context = attention(*placed((query, key, ones), device), **options).numpy()
        np.testing.assert_allclose(context, np.ones_like(context), rtol=1e-12)


def test_the_future_changes_nothing(device, rng):
    query, key, value = drawn(rng, queries=KEYS)
    before = attention(*placed((query, key, value), device), is_causal=True).numpy()
    for array in (key, value):
        array[..., 4:, :] = rng.uniform(-9, 9, array[..., 4:, :].shape)
    after = attention(*placed((query, key, value), device), is_causal=True).numpy()
    np.testing.assert_array_equal(after[..., :4, :], before[..., :4, :])
    assert (after[..., 4:, :] != before[..., 4:, :]).all()


def test_the_order_of_the_keys_changes_nothing(device, rng):
    query, key, value = drawn(rng)
    order = rng.permutation(KEYS)
    mask = bool_mask(rng, QUERIES, KEYS)
    expected = attention(*placed((query, key, value, mask), device, False)).numpy()
    moved = (query, key[..., order, :], value[..., order, :], mask[:, order])
    got = attention(*placed(moved, device, False)).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize(("queries", "keys"), [(5, 7), (7, 5), (1, 7), (6, 6)])
def test_causal_counts_from_the_first_key(device, rng, queries, keys):
    inputs = placed(drawn(rng, queries=queries, keys=keys), device)
    triangle = mt.tensor(np.tri(queries, keys, dtype=bool), device=device)
    np.testing.assert_array_equal(
        attention(*inputs, is_causal=True).numpy(), attention(*inputs, triangle).numpy()
    )


def test_a_long_causal_triangle_is_not_kept(device, rng):
    arrays = drawn(rng, batch=(), heads=1, groups=1, queries=1030, keys=1030, dim=1, value_dim=1)
    context = attention(*placed(arrays, device), is_causal=True).numpy()
    np.testing.assert_allclose(context[0, 0], arrays[2][0, 0])


def test_mask_objects_carry_their_meaning(device, rng):
    inputs = placed(drawn(rng, queries=6, keys=6), device)
    causal, padding = masks.causal(6).to(device), masks.padding([4, 6]).to(device)
    np.testing.assert_array_equal(
        attention(*inputs, causal).numpy(), attention(*inputs, is_causal=True).numpy()
    )
    np.testing.assert_array_equal(
        attention(*inputs, causal & padding).numpy(),
        attention(*inputs, padding, is_causal=True).numpy(),
    )
    inputs = placed(drawn(rng, queries=4, keys=4), device)
    with pytest.raises(ShapeError, match="does not broadcast"):
        attention(*inputs, causal)


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(0, 2),
    sizes=st.tuples(*[st.integers(0, 4)] * 4),
    causal=st.booleans(),
    masked=st.booleans(),
    dropout_p=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 999),
)
def test_any_sizes(device, batch, sizes, causal, masked, dropout_p, seed):
    rng = np.random.default_rng(seed)
    queries, keys, dim, value_dim = sizes
    arrays = drawn(rng, batch=(batch,), queries=queries, keys=keys, dim=dim, value_dim=value_dim)
    mask = mt.tensor(rng.random((queries, keys)) < 0.7, device=device) if masked else None
    cotangent = mt.tensor(rng.standard_normal((batch, HEADS, queries, value_dim)), device=device)
    results = []
    for function in (attention, mt.attention_composed):
        mt.manual_seed(seed)
        inputs = placed(arrays, device)
        context = function(*inputs, mask, dropout_p, causal)
        context.backward(cotangent)
        results.append([context.numpy(), *(x.grad.numpy() for x in inputs)])
    for fused, composed in zip(*results, strict=True):
        np.testing.assert_allclose(fused, composed, rtol=1e-9, atol=1e-12)


def test_dropout_keeps_the_mean_and_its_mask(device, rng):
    arrays = drawn(rng, batch=(4,), queries=100, keys=100)
    inputs = placed(arrays, device)
    expected = attention(*inputs).numpy()
    mt.manual_seed(1)
    mean = np.mean([attention(*inputs, dropout_p=0.3).numpy() for _ in range(50)], 0)
    assert abs(mean - expected).mean() < 0.05
    mt.manual_seed(1)
    first = attention(*inputs, dropout_p=0.3).numpy()
    mt.manual_seed(1)
    np.testing.assert_array_equal(attention(*inputs, dropout_p=0.3).numpy(), first)
    assert (attention(*inputs, dropout_p=0.3).numpy() != first).any()


def test_dropout_is_equal_on_every_device(device, rng):
    arrays = drawn(rng)
    results = []
    for place in ("cpu", device):
        mt.manual_seed(4)
        results.append(attention(*placed(arrays, place), dropout_p=0.5).numpy())
    np.testing.assert_allclose(*results, rtol=1e-12, atol=1e-12)


def test_heads_seen_through_a_view_of_tokens(device, rng):
    tokens = rng.standard_normal((2, KEYS, 3, HEADS, DIM))  # (batch, token, q k v, heads, dim)
    packed = mt.tensor(tokens, device=device, requires_grad=True)
    views = [packed[:, :, i].transpose(1, 2) for i in range(3)]
    context = attention(*views, is_causal=True)
    arrays = [np.ascontiguousarray(tokens[:, :, i].swapaxes(1, 2)) for i in range(3)]
    expected = attention(*placed(arrays, device), is_causal=True)
    np.testing.assert_allclose(context.numpy(), expected.numpy(), rtol=1e-12)
    wide = views[2].reshape(1, *views[2].shape)  # one more leading axis
    assert attention(views[0], views[1], wide).shape == (1, *context.shape)
    if device == "cpu":
        assert context.transpose(1, 2).is_contiguous()  # heads merge without a copy
    backwards = [x.transpose(-1, -2).clone().transpose(-1, -2) for x in views]  # dim before token
    np.testing.assert_allclose(
        attention(*backwards, is_causal=True).numpy(), expected.numpy(), rtol=1e-12
    )


def test_only_the_gradients_that_are_wanted(device, rng):
    for wanted in range(3):
        inputs = placed(drawn(rng), device, requires_grad=False)
        inputs[wanted].requires_grad_()
        attention(*inputs).sum().backward()
        assert [x.grad is not None for x in inputs] == [i == wanted for i in range(3)]


def test_inputs_are_left_alone(device, rng):
    arrays = [*drawn(rng), rng.standard_normal((QUERIES, KEYS))]
    inputs = placed(arrays, device)
    cotangent = rng.standard_normal((2, HEADS, QUERIES, VALUE_DIM))
    given_cotangent = mt.tensor(cotangent, device=device)
    context = attention(*inputs, is_causal=True, dropout_p=0.2)
    context.backward(given_cotangent, retain_graph=True)
    first = [x.grad.numpy().copy() for x in inputs]
    context.backward(given_cotangent)
    for x, host, once in zip(inputs, arrays, first, strict=True):
        np.testing.assert_array_equal(x.numpy(), host)
        np.testing.assert_allclose(x.grad.numpy(), 2 * once)
    np.testing.assert_array_equal(given_cotangent.numpy(), cotangent)


def test_a_step_needs_no_synchronisation(device, rng):
    inputs = placed(drawn(rng), device)
    mask = mt.tensor(bool_mask(rng, QUERIES, KEYS), device=device)
    with forbid_sync():
        attention(*inputs, mask, dropout_p=0.1, is_causal=True).sum().backward()
        mt.attention_composed(*inputs, mask, dropout_p=0.1).sum().backward()


def test_bad_shapes(make):
    query, key, value = make(2, 3, 5, 4), make(2, 3, 7, 4), make(2, 3, 7, 6)
    for function in (attention, mt.attention_composed):
        with pytest.raises(
            ShapeError, match=r"last axes of query and key(.|\n)*query \(2, 3, 5, 4"
        ):
            function(query, value, value)
        with pytest.raises(ShapeError, match="same number of tokens"):
            function(query, key, value[:, :, :5])
        with pytest.raises(ShapeError, match="at least two axes"):
            function(make(4), key, value)
        with pytest.raises(ShapeError, match=r"leading axes(.|\n)*enable_gqa=True"):
            function(query, key[:, :2], value[:, :2])
        with pytest.raises(ShapeError, match="not divisible"):
            function(query, key[:, :2], value[:, :2], enable_gqa=True)
        with pytest.raises(ShapeError, match="requires a head axis"):
            function(query[0, 0], key[0, 0], value[0, 0], enable_gqa=True)


def test_bad_masks(make, device):
    query, key, value = make(2, 3, 5, 4), make(2, 3, 7, 4), make(2, 3, 7, 6)
    for shape in ((7, 5), (2, 5, 7), (2, 7), (4, 2, 3, 5, 7), (5,)):
        with pytest.raises(ShapeError, match=r"does not broadcast(.|\n)*\(2, 3, 5, 7\)"):
            attention(query, key, value, mt.ones(*shape, device=device).bool())
    with pytest.raises(
        DTypeError, match=r"boolean or floating-point tensor(.|\n)*int64(.|\n)*bool\(\)"
    ):
        attention(query, key, value, mt.ones(5, 7, device=device).long())
    with pytest.raises(DTypeError, match="boolean or floating-point tensor"):
        attention(query, key, value, [[True] * 7] * 5)


def test_other_bad_arguments(make, device):
    query, key, value = make(2, 3, 5, 4), make(2, 3, 7, 4), make(2, 3, 7, 6)
    for p in (-0.1, 1.5):
        with pytest.raises(ArgumentError, match="dropout_p must be a probability"):
            attention(query, key, value, dropout_p=p)
    with pytest.raises(DTypeError, match=r"same floating-point dtype(.|\n)*key float32"):
        attention(query, key.float(), value)
    with pytest.raises(DTypeError, match="same floating-point dtype"):
        attention(query.long(), key.long(), value.long())
    with pytest.raises(DTypeError, match="key is not a tensor"):
        attention(query, None, value)
