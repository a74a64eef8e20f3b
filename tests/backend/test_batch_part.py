"""Masks of the rows of a batch: the parts, drawn one by one, are the mask of the whole batch."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import backend
from minitorch_attn.backend.batch_part import batch_part
from minitorch_attn.backend.random import keep_mask, mask_offset, next_offset, reserve_offsets
from minitorch_attn.errors import ArgumentError, GraphError
from minitorch_attn.models import GPT, VisionTransformer
from minitorch_attn.models.swin import Swin
from minitorch_attn.ops.attention.tiled import TiledAttention
from minitorch_attn.ops.dropout import add_dropped

SPLITS = [(1,), (2,), (1, 1), (5, 2), (1, 2, 3, 1), (3, 11, 3), (13, 1, 3, 2), (16, 16, 16)]
INNER = [(), (1,), (3,), (5, 7), (2, 3, 13), (16,), (0,)]


@pytest.fixture(autouse=True)
def keep_the_state():
    state = backend.get_rng_state()
    yield
    backend.set_rng_state(state)


def drawn_in_parts(draw, counts, seed=3):
    """Call `draw(rows)` for each part, and return the results with the counters used afterwards."""
    total, first, found = sum(counts), 0, []
    for count in counts:
        mt.manual_seed(seed)
        with batch_part(first, count, total):
            found.append((draw(slice(first, first + count)), next_offset(0)))
        first += count
    return found


@pytest.mark.parametrize("counts", SPLITS)
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("windows", [1, 3])
def test_parts_are_the_whole_mask(counts, inner, windows, device):
    module = backend.module_for(device)

    def draw(rows):
        size = (rows.stop - rows.start) * windows
        return [backend.to_host(keep_mask((size, *inner), 0.6, module)) for _ in range(3)]

    mt.manual_seed(3)
    whole, after = draw(slice(0, sum(counts))), next_offset(0)
    parts = drawn_in_parts(draw, counts)
    for number, mask in enumerate(whole):
        joined = np.concatenate([found[number] for found, _ in parts])
        np.testing.assert_array_equal(joined, mask)
        assert joined.shape == mask.shape
    assert {used for _, used in parts} == {after}  # the next masks agree as well


def test_an_offset_draws_its_part_again_outside_the_block():
    mt.manual_seed(1)
    whole = keep_mask((7, 5), 0.5)
    mt.manual_seed(1)
    with batch_part(2, 3, 7):
        offset = mask_offset((3, 5))
    np.testing.assert_array_equal(keep_mask((3, 5), 0.5, seed=1, offset=offset), whole[2:5])


@pytest.mark.parametrize("counts", [(2, 3), (1, 1, 3)])
@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d", "drop_path", "add_dropped"])
def test_every_kind_of_dropout(name, counts, make):
    x = make(sum(counts), 3, 7, 2, requires_grad=False)
    x = x[..., 0] if name == "dropout1d" else x
    functions = {
        "drop_path": lambda x: mt.ops.drop_path(x, 0.4, training=True),
        "add_dropped": lambda x: add_dropped(x, 2 * x, 0.4),
    }
    function = functions.get(name) or (lambda x: getattr(mt.nn.functional, name)(x, 0.4))
    mt.manual_seed(3)
    whole = function(x).numpy()
    parts = drawn_in_parts(lambda rows: function(x[rows]).numpy(), counts)
    np.testing.assert_array_equal(np.concatenate([y for y, _ in parts]), whole)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [7, 67, 263])
def test_attention_in_tiles_and_at_once(causal, tokens, make):
    """263 tokens are two blocks of the tiled kernel, 67 two of the causal one."""
    q, k, v = (make(5, 2, tokens, 3) for _ in range(3))
    g = make(5, 2, tokens, 3, requires_grad=False)

    def tiled(q, k, v):
        return TiledAttention.apply(q, k, v, None, scale=0.5, is_causal=causal, dropout_p=0.3)

    def usual(q, k, v):
        return mt.nn.functional.scaled_dot_product_attention(q, k, v, None, 0.3, causal)

    for attention in (tiled, usual):

        def gradients(rows, attention=attention):
            inputs = [x[rows].detach().requires_grad_() for x in (q, k, v)]
            y = attention(*inputs)
            state = backend.batch_part.current.rows
            backend.batch_part.current.rows = None  # the backward pass runs outside the block
            y.backward(g[rows])
            backend.batch_part.current.rows = state
            return [y.detach().numpy(), *[x.grad.numpy() for x in inputs]]

        mt.manual_seed(3)
        whole = gradients(slice(0, 5))
        parts = [found for found, _ in drawn_in_parts(gradients, (2, 1, 2))]
        for number, expected in enumerate(whole):
            joined = np.concatenate([part[number] for part in parts])
            np.testing.assert_allclose(joined, expected, rtol=1e-12, atol=1e-13)


def gpt():
    return GPT(11, 5, embed_dim=12, num_heads=3, num_layers=2, dropout=0.3), (7, 5)


def vit():
    sizes = dict(image_size=6, patch_size=3, num_classes=5, embed_dim=12, num_layers=2)
    rates = dict(dropout=0.2, attention_dropout=0.3, drop_path=0.4)
    return VisionTransformer(**sizes, num_heads=3, mlp_dim=7, in_channels=2, **rates), (7, 2, 6, 6)


def swin():
    sizes = dict(image_size=8, patch_size=2, in_channels=2, num_classes=5, embed_dim=6)
    rates = dict(dropout=0.2, attention_dropout=0.3, drop_path=0.4)
    model = Swin(**sizes, depths=(2,), num_heads=(3,), window_size=2, **rates)
    return model, (7, 2, 8, 8)


@pytest.mark.parametrize("counts", [(7,), (3, 4), (1, 1, 2, 3)])
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("build", [gpt, vit, swin])
def test_gradients_of_models(build, checkpointed, counts, device):
    """The mean over the parts, weighted by their rows, is the gradient of the whole batch."""
    mt.manual_seed(1)
    model, shape = build()
    model.double().to(device).train()
    rng = np.random.default_rng(0)
    values = rng.integers(0, 11, shape) if build is gpt else rng.normal(size=shape)
    x = mt.tensor(values, device=device)
    weights = mt.tensor(rng.normal(size=model(x[:1]).shape[1:]), device=device)

    def gradients(batch, enter):
        model.zero_grad()
        mt.manual_seed(8)
        with enter():
            y = mt.checkpoint(model, batch) if checkpointed else model(batch)
        (y * weights).sin().mean().backward()
        return [p.grad.numpy().copy() for p in model.parameters()]

    total, first, mean = len(x), 0, None
    whole = gradients(x, lambda: batch_part(0, total, total))
    for count in counts:
        part = gradients(x[first : first + count], lambda: batch_part(first, count, total))  # noqa: B023
        part = [grad * (count / total) for grad in part]
        mean = part if mean is None else [a + b for a, b in zip(mean, part, strict=True)]
        first += count
    for got, expected in zip(mean, whole, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    if len(counts) > 1:  # without the block, the parts draw other masks
        plain = gradients(x[: counts[0]], lambda: batch_part(0, 1, 1))
        again = gradients(x[: counts[0]], lambda: batch_part(total - counts[0], counts[0], total))
        assert any(np.abs(a - b).max() > 1e-6 for a, b in zip(plain, again, strict=True))


@pytest.mark.parametrize("rows", [(-1, 2, 3), (0, 0, 3), (2, 2, 3), (0, 1, 0)])
def test_rows_outside_the_batch(rows):
    with pytest.raises(ArgumentError, match="not a part of the batch"):
        batch_part(*rows)


@pytest.mark.parametrize("shape", [(), (3,), (5, 2)])
def test_a_mask_without_the_batch_as_first_axis(shape):
    with batch_part(0, 2, 4), pytest.raises(ArgumentError, match="not a multiple"):
        keep_mask(shape, 0.5)


def test_other_random_numbers_are_refused():
    with batch_part(0, 2, 4):
        for draw in (lambda: mt.randn(2), lambda: reserve_offsets(2)):
            with pytest.raises(GraphError, match="rows 0 to 1 of a batch of 4"):
                draw()
    lstm = mt.nn.LSTM(3, 5, num_layers=2, dropout=0.5)
    with batch_part(0, 2, 4), pytest.raises(GraphError, match="LSTM"):
        lstm(mt.zeros(4, 2, 3))
    with batch_part(0, 2, 2):  # the whole batch
        mt.randn(2)
        lstm(mt.zeros(4, 2, 3))


def test_blocks_end_with_an_error_and_nest():
    with pytest.raises(KeyError), batch_part(0, 1, 2):
        with batch_part(1, 1, 3):
            assert backend.batch_part.current.rows == (1, 1, 3)
        assert backend.batch_part.current.rows == (0, 1, 2)
        raise KeyError
    assert backend.batch_part.current.rows is None


def test_kernels_that_draw_decline_a_part():
    from minitorch_attn.kernels.attention import AttentionKernel
    from minitorch_attn.kernels.dropout import ResidualDropoutKernel

    x = np.zeros((2, 3, 5))

    def accepted():
        offset = mask_offset(x.shape)
        settings = dict(keep_probability=0.5, seed=1, offset=offset, scale=2.0)
        attention = dict(scale=1.0, is_causal=False)
        return [
            ResidualDropoutKernel.accepts(x, x, **settings),
            AttentionKernel.accepts(x, x, x, None, **attention, dropout_p=0.1),
            AttentionKernel.accepts(x, x, x, None, **attention, dropout_p=0.0),
        ]

    assert accepted() == [True, True, True]
    with batch_part(1, 2, 3):  # starts at entry 15: within a counter value
        assert accepted() == [False, False, True]
