"""Model summary: counts equal published tables and counts by hand."""

import io

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.backend.gemm import dry_run
from minitorch_attn.errors import ArgumentError
from minitorch_attn.nn.init import skip_init
from minitorch_attn.nn.summary import Summary
from minitorch_attn.ops.attention.additive import additive_attention
from minitorch_attn.ops.attention.sliding_window import sliding_window_attention


def counted(build, *inputs, **kwargs):
    with skip_init():
        return Summary(build(), *inputs, **kwargs)


def test_a_linear_layer_by_hand():
    found = counted(lambda: mt.nn.Linear(7, 5), (2, 3, 7))
    assert found.parameters == 7 * 5 + 5 and found.flops == 2 * (2 * 3) * 7 * 5
    assert found.rows[0].input_shape == (2, 3, 7) and found.rows[0].output_shape == (2, 3, 5)
    assert found.parameter_bytes == 4 * 40 and found.output_bytes == 4 * 30


def test_attention_by_hand():
    batch, tokens, embed, heads = 2, 5, 12, 3
    projections = 4 * 2 * batch * tokens * embed * embed
    products = 2 * 2 * batch * heads * tokens * tokens * (embed // heads)
    found = counted(lambda: mt.nn.Attention(embed, heads), (batch, tokens, embed))
    assert found.flops == projections + products
    found = counted(lambda: mt.nn.Attention(embed, heads, num_kv_heads=1), (batch, tokens, embed))
    shared = 2 * 2 * batch * tokens * embed * (embed // heads)  # the projections of one head
    assert found.flops == projections // 2 + shared + products


class _Call(mt.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


@pytest.mark.parametrize("score", ["product", "squared_difference"])
def test_sliding_windows_by_hand(score):
    query, key, value = mt.randn(2, 3, 5, 4, 3), mt.randn(2, 3, 5, 7, 6), mt.randn(2, 3, 11, 7, 6)

    def attend(query, **given):
        return sliding_window_attention(query, key, value, 3, stride=2, score=score, **given)

    pairs = 2 * 3 * (4 * 3) * 3**2  # of an output and a place of its window, in all heads
    found = counted(lambda: _Call(attend), query)
    assert found.flops == 2 * pairs * (5 + 11)
    if score == "product":
        found = counted(lambda: _Call(attend), query, relative=mt.randn(3, 5, 9))
        assert found.flops == 2 * pairs * (5 + 5 + 11)


def test_additive_attention_by_hand():
    found = counted(
        lambda: _Call(additive_attention),
        mt.randn(2, 3, 7), mt.randn(2, 5, 7), mt.randn(7), mt.randn(2, 5, 11),
    )  # fmt: skip
    assert found.flops == 2 * 2 * (3 * 5) * (7 + 11)


def test_attention_in_tiles_counts_the_same():
    once = counted(lambda: mt.nn.Attention(2, 1), (1, 1023, 2))
    tiled = counted(lambda: mt.nn.Attention(2, 1), (5, 1024, 2))
    per_pair = 2 * 2 * 2
    projections = 4 * 2 * 2 * 2
    assert once.flops == 1023 * projections + 1023**2 * per_pair
    assert tiled.flops == 5 * (1024 * projections + 1024**2 * per_pair)


@pytest.mark.parametrize("groups", [1, 3])
def test_convolutions_by_hand(groups):
    found = counted(lambda: mt.nn.Conv2d(3, 6, (3, 5), stride=2, groups=groups), (2, 3, 11, 13))
    assert found.flops == 2 * (2 * 6 * 5 * 5) * (3 // groups * 3 * 5)
    found = counted(lambda: mt.nn.ConvTranspose2d(3, 6, 3, groups=groups), (2, 3, 5, 7))
    assert found.flops == 2 * (2 * 3 * 5 * 7) * (6 // groups * 3 * 3)


@pytest.mark.parametrize("kind, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_networks_by_hand(kind, gates):
    found = counted(lambda: getattr(mt.nn, kind)(5, 7), (3, 2, 5))
    assert found.flops == 2 * (3 * 2) * gates * 7 * (5 + 7)
    assert found.rows[0].parameters == gates * 7 * (5 + 7 + 2)


# Zhai et al. 2021, arXiv:2106.04560v2, table 2, at 224 and at 384 pixels. Its counts include a
# part of the elementwise operations, so they are a little larger or smaller than products alone.
VIT = [
    ("vit_ti_16", 2.5, 9.5),
    ("vit_s_16", 9.2, 31.2),
    ("vit_b_32", 8.7, 26.0),
    ("vit_b_16", 35.1, 111.3),
    ("vit_l_16", 122.9, 382.8),
]


@pytest.mark.parametrize("name, at_224, at_384", VIT)
@pytest.mark.slow
def test_flops_of_vit(name, at_224, at_384):
    build = getattr(mt.models, name)
    for size, published in ((224, at_224), (384, at_384)):
        found = counted(lambda size=size: build(image_size=size), (1, 3, size, size))
        assert found.flops / 1e9 == pytest.approx(published, rel=0.015, abs=0.06)


@pytest.mark.parametrize(
    "name, parameters",
    [("gpt2", 124_439_808), ("gpt2_medium", 354_823_168), ("gpt2_large", 774_030_080),
     ("gpt2_xl", 1_557_611_200), ("vit_b_16", 86_567_656), ("vit_l_16", 304_326_632),
     ("vit_h_14", 632_045_800), ("bert_base", 109_482_240), ("bert_large", 335_141_888),
     ("swin_t", 28_288_354), ("swin_s", 49_606_258), ("swin_b", 87_768_224)],
)  # fmt: skip
def test_published_sizes(name, parameters):
    with skip_init():
        model = getattr(mt.models, name)()
    assert sum(p.array.size for p in model.parameters()) == parameters


def test_shared_parameters_count_once_and_calls_add_up():
    class Twice(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = self.again = mt.nn.Linear(3, 3)

        def forward(self, x):
            return self.again(self.layer(x))

    found = counted(Twice, (2, 3))
    assert found.parameters == 12 and found.flops == 2 * 2 * 2 * 9
    (row,) = [row for row in found.rows if row.name]
    assert row.calls == 2 and row.flops == found.flops
    assert "x2" in str(found)


def test_nothing_is_left_behind(make, device):
    model = mt.nn.Sequential(mt.nn.Linear(3, 5), mt.nn.BatchNorm1d(5)).double().train().to(device)
    x = make(2, 3)
    before = model.state_dict()["1.running_mean"].numpy().copy()
    Summary(model, x)
    assert model.training and model[1].training
    np.testing.assert_array_equal(model.state_dict()["1.running_mean"].numpy(), before)
    assert np.abs((x @ model[0].weight.T).numpy()).max() > 0  # products are computed again
    with pytest.raises(Exception):  # noqa: B017
        Summary(model, (2, 4))
    assert model.training and not mt.autograd.modes.watchers


def test_a_dry_run_has_the_shapes_of_a_real_one():
    a, b = np.ones((5, 1, 2, 3), np.float32), np.ones((7, 3, 4), np.float32)
    with dry_run():
        product = mt.backend.matmul(a, b)
    assert product.shape == (a @ b).shape and product.dtype == np.float32 and not product.any()
    assert mt.backend.matmul(a, b).all()


def test_what_is_printed():
    text = io.StringIO()
    model = mt.nn.Sequential(mt.nn.Sequential(mt.nn.Linear(3, 5)), mt.nn.Linear(5, 2))
    mt.summary(model, (2, 3), depth=1, file=text)
    lines = text.getvalue().splitlines()
    assert lines[2].split() == "model (Sequential) (2, 3) (2, 2) 32 100 56 B".split()
    assert len([line for line in lines if "Linear" in line]) == 1
    assert "32 parameters, 128 B" in text.getvalue()
    frozen = mt.nn.Linear(3, 5)
    frozen.weight.requires_grad_(False)
    assert "20 parameters, 15 of them frozen" in str(Summary(frozen, (2, 3)))


def test_inputs_that_are_none():
    with pytest.raises(ArgumentError, match="each input must be"):
        Summary(mt.nn.Linear(3, 5), "text")
