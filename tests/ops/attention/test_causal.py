"""Causal attention in blocks of queries equals attention with the causal mask."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.nn import functional as F
from minitorch_attn.ops.attention import causal as attention_causal
from minitorch_attn.ops.attention.causal import CausalAttention, causal_blocks
from minitorch_attn.ops.attention.fused import Attention
from minitorch_attn.ops.plumbing.flops import FLOPS

TOKENS, DIM, VALUE_DIM = 11, 5, 2


@pytest.fixture(autouse=True, params=[1, 3, 4, 100])
def rows(request, monkeypatch):
    monkeypatch.setattr(attention_causal, "ROWS", request.param)
    return request.param


def settings(dropout_p=0.0):
    return {"scale": 0.4, "is_causal": True, "dropout_p": dropout_p}


def inputs(make, lead_query=(2, 3), lead_key=(2, 3), lead_value=None):
    return (
        make(*lead_query, TOKENS, DIM),
        make(*lead_key, TOKENS, DIM),
        make(*(lead_value or lead_key), TOKENS, VALUE_DIM),
    )


CASES = [
    ((2, 3), (2, 3), None),
    ((2, 3, 2), (2, 3, 1), None),  # groups of query heads
    ((1,), (2,), None),
    ((), (), (7,)),
]


@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_equal_those_at_once(case, dropout_p, make):
    tensors, found = inputs(make, *case), []
    for function in (Attention, CausalAttention):
        mt.manual_seed(3)  # the same mask of dropout
        context = function.apply(*tensors, None, **settings(dropout_p))
        weight = np.random.default_rng(0).normal(size=context.shape)
        (context * mt.tensor(weight, device=context.device)).sum().backward()
        found.append([context.numpy(), *(t.grad.numpy() for t in tensors)])
        for t in tensors:
            t.grad = None
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-14)
        assert one.shape == other.shape


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
def test_gradients_are_derivatives(dropout_p, make, rows, device):
    if device == "cuda" and rows > 1:
        pytest.skip("the kernel does not split the queries into blocks: once is enough")

    def function(*tensors):
        mt.manual_seed(5)
        return CausalAttention.apply(*tensors, None, **settings(dropout_p))

    assert gradcheck(function, inputs(make))
    small = [x[:1, :1, :4].detach().requires_grad_() for x in inputs(make)]
    assert gradgradcheck(function, small)


def test_the_future_changes_nothing(make):
    query, key, value = inputs(make)
    before = CausalAttention.apply(query, key, value, None, **settings()).numpy()
    for x in (query, key, value):
        x.data[..., 6:, :] += 100.0
    after = CausalAttention.apply(query, key, value, None, **settings()).numpy()
    np.testing.assert_array_equal(before[..., :6, :], after[..., :6, :])
    assert abs(before[..., 6:, :] - after[..., 6:, :]).min() > 1e-6


def test_weights_beyond_the_diagonal_blocks_are_not_kept(make, rows, device):
    context = CausalAttention.apply(*inputs(make, (), ()), None, **settings())
    count = sum((r.stop - r.start) * seen.stop for r, seen in causal_blocks(TOKENS))
    kept = TOKENS if device == "cuda" else count  # the kernel keeps the log-sum-exp of each row
    assert sum(array.size for array in context.grad_fn.intermediate) == kept
    assert count <= TOKENS * (TOKENS + rows) / 2 + rows * rows
    flops = FLOPS["CausalAttention"](inputs(make, (), ()), [context])
    assert flops == 2 * TOKENS**2 * (DIM + VALUE_DIM)  # counted like attention in one piece


def test_which_attention_is_chosen(make, rows):
    query, key, value = inputs(make)

    def op(**options):
        context = F.scaled_dot_product_attention(query, key, value, **options)
        return context.grad_fn.function.__name__

    assert op(is_causal=True) == ("CausalAttention" if rows < TOKENS else "Attention")
    assert op() == "Attention"
    mask = mt.ones(TOKENS, TOKENS, dtype=mt.bool, device=query.device)
    assert op(is_causal=True, attn_mask=mask) == "Attention"


def test_context_lies_in_memory_as_the_query_does(make):
    query, key, value = (x.detach() for x in inputs(make, (2, TOKENS), (2, TOKENS)))
    query, key, value = (x[:, :3].transpose(1, 2) for x in (query, key, query))
    context = CausalAttention.apply(query, key, value, None, **settings())
    assert context.transpose(1, 2).is_contiguous()
