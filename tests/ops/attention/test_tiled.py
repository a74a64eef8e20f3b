"""Tiled attention equals attention at once, with tiles so small that there are many."""

import tracemalloc

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.ops.attention import tiled as attention_tiled
from minitorch_attn.ops.attention.fused import Attention
from minitorch_attn.ops.attention.tiled import TiledAttention, tiles_pay

QUERIES, KEYS, DIM, VALUE_DIM = 7, 11, 5, 2


@pytest.fixture(autouse=True, params=[(3, 4), (100, 100)])
def tiles(request, monkeypatch):
    monkeypatch.setattr(attention_tiled, "ROWS", request.param[0])
    monkeypatch.setattr(attention_tiled, "COLUMNS", request.param[1])
    return request.param


def settings(is_causal=False, dropout_p=0.0):
    return {"scale": 0.4, "is_causal": is_causal, "dropout_p": dropout_p}


def inputs(make, lead_query, lead_key, mask_shape=None):
    mask = None if mask_shape is None else make(*mask_shape)
    return (
        make(*lead_query, QUERIES, DIM),
        make(*lead_key, KEYS, DIM),
        make(*lead_key, KEYS, VALUE_DIM),
        mask,
    )


CASES = [
    ((2, 3), (2, 3), None),
    ((2, 3), (2, 3), (QUERIES, KEYS)),
    ((2, 3), (1, 3), (2, 1, 1, KEYS)),
    ((2, 3, 2), (2, 3, 1), (1, 3, 1, QUERIES, 1)),  # groups of query heads
    ((), (), (KEYS,)),
    ((1,), (2,), (2, QUERIES, KEYS)),
]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_equal_those_at_once(case, is_causal, make):
    tensors = inputs(make, *case)
    found = []
    for function in (Attention, TiledAttention):
        context = function.apply(*tensors, **settings(is_causal))
        weight = np.random.default_rng(0).normal(size=context.shape)
        (context * mt.tensor(weight, device=context.device)).sum().backward()
        given = [t for t in tensors if t is not None]
        found.append([context.numpy(), *(t.grad.numpy() for t in given)])
        for t in given:
            t.grad = None
    for once, tiled in zip(*found, strict=True):
        np.testing.assert_allclose(tiled, once, atol=1e-14)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 11), (7, 1), (4, 5)])
def test_the_sizes_of_tiles_make_no_difference(sizes, make, monkeypatch):
    monkeypatch.setattr(attention_tiled, "ROWS", sizes[0])
    monkeypatch.setattr(attention_tiled, "COLUMNS", sizes[1])
    tensors = inputs(make, (2,), (2,), (QUERIES, KEYS))
    once = Attention.apply(*tensors, **settings(True)).numpy()
    found = TiledAttention.apply(*tensors, **settings(True)).numpy()
    np.testing.assert_allclose(found, once, atol=1e-14)


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
def test_first_and_second_derivatives(dropout_p, make):
    query, key, value, mask = inputs(make, (), (), (QUERIES, KEYS))

    def attention(*tensors):
        mt.manual_seed(3)  # the same masks at every call
        return TiledAttention.apply(*tensors, **settings(True, dropout_p))

    assert gradcheck(attention, (query, key, value, mask))
    assert gradgradcheck(attention, (query, key, value, mask))


def test_dropout_drops_and_scales(make, device):
    query, key, _, _ = inputs(make, (2, 3), (2, 3))
    value = mt.tensor(np.eye(KEYS), device=device)  # the context is then the weights themselves
    mt.manual_seed(0)
    weights = TiledAttention.apply(query, key, value, None, **settings()).numpy()
    dropped = TiledAttention.apply(query, key, value, None, **settings(dropout_p=0.4)).numpy()
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], weights[kept] / 0.6, rtol=1e-12)
    assert 0.5 < kept.mean() < 0.7
    everything = TiledAttention.apply(query, key, value, None, **settings(dropout_p=1.0))
    assert not everything.numpy().any()


def test_booleans_and_rows_that_see_nothing(make, device):
    query, key, value, _ = inputs(make, (2,), (2,))
    attend = np.random.default_rng(1).random((QUERIES, KEYS)) > 0.5
    attend[2] = attend[6] = False
    mask = mt.tensor(attend, device=device)
    once = Attention.apply(query, key, value, mask, **settings())
    tiled = TiledAttention.apply(query, key, value, mask, **settings())
    np.testing.assert_allclose(tiled.numpy(), once.numpy(), atol=1e-15)
    assert not tiled.numpy()[:, [2, 6]].any()
    tiled.sum().backward()
    assert np.isfinite(query.grad.numpy()).all() and not query.grad.numpy()[:, [2, 6]].any()


def test_large_scores_do_not_overflow(make, device):
    query, key, value, _ = inputs(make, (2,), (2,))
    found = TiledAttention.apply(query * 1e4, key, value, None, **settings()).numpy()
    expected = Attention.apply(query * 1e4, key, value, None, **settings()).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_float32_stays(make):
    tensors = [t.float() for t in inputs(make, (2,), (2,))[:3]]
    assert TiledAttention.apply(*tensors, None, **settings(True)).dtype == mt.float32


def test_which_sizes_are_tiled(monkeypatch, make):
    assert tiles_pay((1, 4, 4096, 4096)) and tiles_pay((1, 4, 1024, 1024))
    assert not tiles_pay((1, 1, 1024, 1024)) and not tiles_pay((64, 8, 512, 1024))
    query, key, value, _ = inputs(make, (2,), (2,))
    for pay, op in ((True, "TiledAttention"), (False, "Attention")):
        monkeypatch.setattr(
            "minitorch_attn.ops.attention.scaled_dot_product.tiles_pay", lambda shape, pay=pay: pay
        )
        with mt.autograd.op_log() as steps:
            mt.scaled_dot_product_attention(query, key, value, is_causal=True)
        assert [step.op for step in steps] == [op]


def test_memory_grows_with_the_tokens_only(monkeypatch, tiles):
    if tiles != (100, 100):
        pytest.skip("once is enough")
    peaks = []
    for tokens in (400, 800):
        query, key, value = (mt.randn(tokens, 8).requires_grad_() for _ in range(3))
        tracemalloc.start()
        TiledAttention.apply(query, key, value, None, **settings(True)).sum().backward()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.2 * peaks[0]
    assert peaks[1] < 4 * 800 * 800  # less than the scores alone


@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
def test_threads_share_the_rows_and_give_the_same_every_time(dropout_p, make, monkeypatch):
    tensors = inputs(make, (2, 3), (2, 3))[:3]
    found = []
    for threads in (1, 2, 3, 3):
        monkeypatch.setattr(attention_tiled, "threads_for", lambda array, n=threads: n)
        mt.manual_seed(7)
        context = TiledAttention.apply(*tensors, None, **settings(True, dropout_p))
        (context * context).sum().backward()
        found.append([context.numpy(), *(t.grad.numpy() for t in tensors)])
        for t in tensors:
            t.grad = None
    for one, two, three, again in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-13)
        np.testing.assert_allclose(one, three, atol=1e-13)
        np.testing.assert_array_equal(three, again)
