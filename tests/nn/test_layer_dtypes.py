"""A layer whose input has another dtype than its parameters: the error converts the input."""

import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import DTypeError

CALLS = {
    "Linear": (lambda: nn.Linear(3, 2), (2, 3)),
    "LayerNorm": (lambda: nn.LayerNorm(3), (2, 3)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), (2, 3)),
    "GroupNorm": (lambda: nn.GroupNorm(3, 3), (2, 3, 5)),
    "Conv2d": (lambda: nn.Conv2d(3, 2, 1), (1, 3, 5, 5)),
    "Attention": (lambda: nn.Attention(3, 1), (1, 2, 3)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2), (2, 1, 4)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("recorded", [True, False])
def test_the_input_is_what_to_convert(name, recorded):
    create, shape = CALLS[name]
    with mt.set_grad_enabled(recorded), pytest.raises(DTypeError) as caught:
        create()(mt.zeros(*shape, dtype=mt.float64))
    hint = caught.value.hint
    assert "input.float()" in hint or "input.to(weight.dtype)" in hint
    assert "weight.to(" not in hint


def test_the_projections_of_multihead_attention_too():
    x = mt.zeros(2, 1, 4, dtype=mt.float64)
    with pytest.raises(DTypeError) as caught:
        nn.MultiheadAttention(4, 2)(x, x, x)
    assert "input.float()" in caught.value.hint
    assert "module.to(input.dtype) for the whole module" in caught.value.hint


def test_a_product_with_a_parameter_converts_the_other_operand():
    a, weight = mt.zeros(2, 3, dtype=mt.float64), nn.Parameter(mt.zeros(3, 2))
    with pytest.raises(DTypeError) as caught:
        a @ weight
    assert caught.value.hint.startswith("a.float()")
    with pytest.raises(DTypeError) as caught:
        mt.zeros(2, 3) @ a.T
    assert caught.value.hint == "b.to(a.dtype)"
