"""collect_attention: every attention class is seen, or named if its weights are unavailable."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.nn import collect_attention


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_weights_of_recurrent_attention_have_a_head_axis(batch):
    additive, luong = mt.nn.AdditiveAttention(3, 5, 7), mt.nn.LuongAttention(3, 5)
    query, memory = mt.randn(batch, 2, 3), mt.randn(batch, 11, 5)
    with collect_attention(additive) as found:
        _, weights = additive(query, memory, memory)
    with collect_attention(luong) as more:
        _, others = luong(query, memory)
    for layer, collected, expected in ((additive, found, weights), (luong, more, others)):
        ((seen, value),) = collected
        assert seen is layer and value.shape == (batch, 1, 2, 11)
        np.testing.assert_array_equal(value.squeeze(1).numpy(), expected.numpy())
    assert additive.weight_hooks == luong.weight_hooks == []


def test_a_sequence_model_shows_every_step_of_its_decoder():
    model = mt.nn.AttentionSeq2Seq(3, 5, 7)
    with collect_attention(model) as found:
        model(mt.randn(2, 11, 3), mt.randn(2, 4, 5))
    assert [weights.shape for _, weights in found] == [(2, 1, 1, 11)] * 4


class OwnAttention(mt.nn.Module):
    def __init__(self, hooks):
        super().__init__()
        self.proj = mt.nn.Linear(4, 4)
        if hooks:
            self.weight_hooks = []

    def forward(self, x):
        x = self.proj(x)
        weights = mt.softmax(x @ x.mT, -1)
        for hook in getattr(self, "weight_hooks", ()):
            hook(self, weights.unsqueeze(1))
        return weights @ x


def test_a_layer_of_ones_own_with_hooks_is_seen():
    model = mt.nn.Sequential(OwnAttention(hooks=True), mt.nn.ReLU())
    with collect_attention(model) as found:
        model(mt.randn(2, 3, 4))
    assert [weights.shape for _, weights in found] == [(2, 1, 3, 3)]


def test_a_layer_of_ones_own_without_hooks_is_named():
    model = mt.nn.Sequential(mt.nn.Attention(4, 2), OwnAttention(hooks=False))
    with pytest.raises(ArgumentError, match=r"cannot be collected\n.*1 = OwnAttention"):
        with collect_attention(model):
            pass
    assert model[0].weight_hooks == []


def test_a_model_without_attention_is_refused():
    with pytest.raises(ArgumentError, match=r"no attention layer\n.*the module = Linear"):
        with collect_attention(mt.nn.Linear(3, 5)):
            pass
