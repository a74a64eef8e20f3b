"""Ring attention on 1 to 4 ranks equals attention in one process, and sends what it must."""

import sys

import numpy as np
import pytest
from distributed.ranks import run_ranks
from marks import slow_except

import minitorch_attn as mt
from minitorch_attn.distributed import ring_attention as public
from minitorch_attn.distributed.passing import ALONE
from minitorch_attn.distributed.ring_attention import RingAttention
from minitorch_attn.distributed.sequence_order import (
    ORDERS,
    join_sequence,
    sequence_slices,
    split_sequence,
)
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.ops.attention import scaled_dot_product as choice
from minitorch_attn.ops.attention import tiled

RANKS = (1, 2, 3, 4)
KINDS = (None, "boolean", "additive", "per key", "own rows", "Mask")


def set_tiles(rows, columns, pay):
    tiled.ROWS, tiled.COLUMNS = rows, columns
    tiled.tiles_pay = choice.tiles_pay = lambda shape: pay


def leaf(array):
    return mt.tensor(array, requires_grad=array.dtype.kind == "f")


def own(array, rank, size, order, dim=-2):
    return split_sequence(mt.tensor(array), rank, size, dim % array.ndim, order).numpy()


def drawn(rng, size):
    """Draw one configuration: settings, and arrays of the whole sequence."""
    causal, chunk = bool(rng.integers(2)), rng.choice([1, 2, 3, 5])
    key_chunk = chunk if causal else rng.choice([1, 2, 5])
    queries, keys = 2 * size * chunk, 2 * size * key_chunk
    heads = 6
    kv_heads = int(rng.choice([1, 2, 6]))
    kind = KINDS[rng.integers(len(KINDS))]
    if kind == "Mask" and not causal:
        kind = "boolean"
    mask = None
    if kind == "boolean":
        mask = rng.random((2, 1, queries, keys)) > 0.4
        mask[:, :, queries // 2] = False  # a query that cannot attend to any key
    elif kind in ("additive", "own rows"):
        mask = rng.normal(size=(heads, queries, keys))
    elif kind == "per key":
        mask = rng.normal(size=(1, keys))
    settings = {
        "dropout_p": float(rng.choice([0.0, 0.3])), "scale": 0.7,
        "is_causal": causal and kind != "Mask", "enable_gqa": kv_heads != heads,
    }  # fmt: skip
    arrays = (
        rng.normal(size=(2, heads, queries, 5)),
        rng.normal(size=(2, kv_heads, keys, 5)),
        rng.normal(size=(2, kv_heads, keys, 7)),
    )
    return kind, settings, arrays, mask, rng.normal(size=(2, heads, queries, 7))


def with_mask(kind, mask, queries):
    """The mask as an argument, and the tensor whose gradient is compared, or None."""
    if kind == "Mask":
        return mt.masks.causal(queries), None
    if mask is None:
        return None, None
    tensor = leaf(mask)
    return tensor, tensor if tensor.requires_grad else None


def compare(found, expected, what, tolerance, scale=None):
    """Compare arrays. Errors are relative to the largest value of `scale`, the whole array.

    With one visible key, gradients are sums that cancel; they are compared with 1e-3.
    """
    scale = max(np.abs(expected if scale is None else scale).max(initial=0), 1e-3)
    error = np.abs(found - expected).max() / scale
    assert error < tolerance, f"{what}: relative error {error:.2g}"


def one_case(rng, rank, size, order, dtype="float64", tolerance=1e-12):
    kind, settings, arrays, mask, weight = drawn(rng, size)
    arrays = tuple(array.astype(dtype) for array in arrays)
    mask = mask.astype(dtype) if mask is not None and mask.dtype.kind == "f" else mask
    weight = weight.astype(dtype)
    tensors, queries = [leaf(array) for array in arrays], arrays[0].shape[-2]
    argument, wanted = with_mask(kind, mask, queries)
    mt.manual_seed(11)
    whole = mt.scaled_dot_product_attention(*tensors, argument, **settings)
    (whole * mt.tensor(weight)).sum().backward()

    parts = [leaf(own(array, rank, size, order)) for array in arrays]
    here = own(mask, rank, size, order) if kind == "own rows" else mask
    argument, mask_part = with_mask(kind, here, queries)
    mt.manual_seed(11)
    part = public(*parts, argument, **settings, order=order)
    (part * mt.tensor(own(weight, rank, size, order))).sum().backward()
    assert mt.get_rng_state()["offset"] > 0 or not settings["dropout_p"]

    name = f"{kind}, {settings}, {order}"
    whole = whole.detach().numpy()
    compare(part.numpy(), own(whole, rank, size, order), name, tolerance, whole)
    for tensor, own_part in zip(tensors, parts, strict=True):
        whole = tensor.grad.numpy()
        expected = own(whole, rank, size, order)
        compare(own_part.grad.numpy(), expected, f"gradient, {name}", tolerance, whole)
    if wanted is not None:
        whole = expected = wanted.grad.numpy()
        if kind == "own rows":
            expected = own(expected, rank, size, order)
        else:
            mt.distributed.all_reduce(mask_part.grad)
        compare(mask_part.grad.numpy(), expected, f"mask gradient, {name}", tolerance, whole)
    return kind, settings["dropout_p"] > 0, settings["is_causal"]


def check_drawn(cases, seed):
    mt.distributed.init_process_group()
    rank, size = mt.distributed.get_rank(), mt.distributed.get_world_size()
    rng, seen = np.random.default_rng(seed), set()
    for number in range(cases):
        set_tiles(*((3, 4), (256, 512), (1, 7))[number % 3], pay=number % 2 == 0)
        seen.add(one_case(rng, rank, size, ORDERS[number // 2 % 2]))
    return len(seen)


@pytest.mark.parametrize("size", slow_except((2,), RANKS))
def test_drawn_configurations(size):
    assert min(run_ranks(size, check_drawn, 60, 3)) > 15


def check_float32():
    mt.distributed.init_process_group()
    rank, size = mt.distributed.get_rank(), mt.distributed.get_world_size()
    rng = np.random.default_rng(5)
    for order in ORDERS * 4:
        one_case(rng, rank, size, order, "float32", 2e-6)


def test_float32_to_a_few_units_in_the_last_place():
    run_ranks(3, check_float32)


def check_second_derivatives():
    mt.distributed.init_process_group()
    rank, size = mt.distributed.get_rank(), mt.distributed.get_world_size()
    rng = np.random.default_rng(7)
    arrays = [rng.normal(size=(2, 4 * size, 3)) for _ in range(3)]
    weights = [rng.normal(size=(2, 4 * size, 3)) for _ in range(4)]
    mask = rng.normal(size=(4 * size, 4 * size))
    for dropout_p in (0.0, 0.3):
        found = []
        for split in (False, True):
            parts = arrays + weights
            if split:
                parts = [own(array, rank, size, "zigzag") for array in parts]
            inputs, (g, *directions) = [leaf(a) for a in parts[:3]], map(mt.tensor, parts[3:])
            attention = public if split else mt.scaled_dot_product_attention
            mt.manual_seed(2)
            context = attention(*inputs, mt.tensor(mask), dropout_p, True)
            grads = mt.autograd.grad((context * g).sum(), inputs, create_graph=True)
            total = sum((d * grad).sum() for d, grad in zip(directions, grads, strict=True))
            found.append([x.numpy() for x in mt.autograd.grad(total, inputs)])
        for whole, part in zip(*found, strict=True):
            expected = own(whole, rank, size, "zigzag")
            compare(part, expected, "second derivative", 1e-12, whole)


@pytest.mark.parametrize("size", (1, 3))
def test_second_derivatives(size):
    run_ranks(size, check_second_derivatives)


def check_messages():
    mt.distributed.init_process_group()
    size = mt.distributed.get_world_size()
    query, key, value = (
        mt.randn(2, heads, 6, dim, dtype=mt.float64, requires_grad=True)
        for heads, dim in ((4, 5), (2, 5), (2, 7))
    )
    part = 2 * 2 * 6 * (5 + 7) * 8  # keys and values of the two shared heads
    with mt.distributed.count_messages() as forward:
        context = public(query, key, value, is_causal=True, enable_gqa=True)
    with mt.distributed.count_messages() as backward:
        context.sum().backward()
    for traffic, messages in ((forward, size - 1), (backward, 2 * size - 1 if size > 1 else 0)):
        assert (traffic.messages, traffic.bytes) == (messages, messages * part)
        assert traffic["send"].calls == traffic["recv"].calls == messages


@pytest.mark.parametrize("size", RANKS)
def test_messages_and_bytes(size):
    run_ranks(size, check_messages)


def check_work():
    """Count the scores that each rank computes, by order."""
    module = sys.modules[RingAttention.__module__]
    mt.distributed.init_process_group()
    set_tiles(2, 2, False)
    counts, scores = [], module.tile_scores

    def counted(q, k, *rest):
        counts[-1] += q.shape[-2] * k.shape[-2]
        return scores(q, k, *rest)

    module.tile_scores = counted
    for order in ORDERS:
        counts.append(0)
        x = mt.randn(1, 8, 3, dtype=mt.float64)
        public(x, x, x, is_causal=True, order=order)
    return counts


def test_zigzag_gives_all_ranks_the_same_work():
    zigzag, contiguous = zip(*run_ranks(4, check_work), strict=True)
    # 16 tiles of 2 queries; of the tiles on the diagonal, both queries see the tile: 4 scores.
    assert zigzag == (4 * 16 * 17 // 2 // 4,) * 4
    in_blocks = [4 * sum(range(4 * rank + 1, 4 * rank + 5)) for rank in range(4)]
    assert list(contiguous) == in_blocks and sum(contiguous) == sum(zigzag)


def check_group():
    """Two rings of two ranks each, side by side."""
    mt.distributed.init_process_group()
    rank = mt.distributed.get_rank()
    rings = [mt.distributed.new_group([0, 3]), mt.distributed.new_group([1, 2])]
    number, place = (0, rank // 3) if rank in (0, 3) else (1, rank - 1)
    x = np.random.default_rng(number).normal(size=(8, 3))
    part = mt.tensor(own(x, place, 2, "zigzag"))
    found = public(part, part, part, is_causal=True, group=rings[number])
    x = mt.tensor(x)
    expected = mt.scaled_dot_product_attention(x, x, x, is_causal=True)
    compare(found.numpy(), own(expected.numpy(), place, 2, "zigzag"), "group", 1e-12)


def test_groups_of_some_ranks():
    run_ranks(4, check_group)


def check_errors():
    mt.distributed.init_process_group()
    x = mt.zeros(3, 2)
    with pytest.raises(ShapeError, match="number of tokens of a rank must be even"):
        public(x, x, x)
    assert public(x, x, x, order="contiguous").shape == (3, 2)
    with pytest.raises(ShapeError, match="does not broadcast"):
        public(x, x, x, mt.zeros(3, 5), order="contiguous")
    for order in ORDERS:
        empty = mt.zeros(0, 2, requires_grad=True)
        public(empty, empty, empty, order=order).sum().backward()
        assert empty.grad.shape == (0, 2)


def test_errors_and_empty_sequences():
    run_ranks(2, check_errors)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", RANKS)
def test_orders_hold_every_token_once(size, order):
    x = mt.arange(24).reshape(2, 12 * 1) if size != 4 else mt.arange(32).reshape(2, 16)
    parts = [split_sequence(x, rank, size, 1, order) for rank in range(size)]
    assert {part.shape for part in parts} == {(2, x.shape[1] // size)}
    assert join_sequence(parts, 1, order).tolist() == x.tolist()
    for rank, part in enumerate(parts):
        slices = sequence_slices(x.shape[1], rank, size, order)
        assert part[0].tolist() == [i for s in slices for i in range(s.start, s.stop)]


def test_lengths_and_orders_that_do_not_fit():
    with pytest.raises(ShapeError, match="pad the sequence to 12 tokens"):
        sequence_slices(11, 0, 2)
    for rank, size in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ArgumentError, match="less than size"):
            sequence_slices(8, rank, size)
    with pytest.raises(ArgumentError, match="unknown order"):
        sequence_slices(8, 0, 2, "striped")


def test_a_ring_of_one_on_every_device(device, monkeypatch):
    monkeypatch.setattr(tiled, "ROWS", 3)
    monkeypatch.setattr(tiled, "COLUMNS", 4)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2, h, 7, 5)) for h in (6, 3, 3)]
    mask = mt.tensor(rng.random((7, 7)) > 0.4, device=device)
    found = []
    for options in ({}, {"group": ALONE}):
        tensors = [mt.tensor(a, device=device, requires_grad=True) for a in arrays]
        attention = public if options else mt.scaled_dot_product_attention
        mt.manual_seed(4)
        context = attention(*tensors, mask, 0.4, True, enable_gqa=True, **options)
        context.square().sum().backward()
        found.append([context.detach().numpy(), *[x.grad.numpy() for x in tensors]])
    for whole, part in zip(*found, strict=True):
        compare(part, whole, "device", 1e-12)


def test_part_of_the_heads_draws_its_part_of_the_dropout_masks(monkeypatch):
    monkeypatch.setattr(tiled, "ROWS", 3)
    rng = np.random.default_rng(0)
    query, key, value = (mt.tensor(rng.normal(size=(2, h, 7, 5))) for h in (6, 3, 3))
    for pay in (False, True):
        monkeypatch.setattr(tiled, "tiles_pay", lambda shape, pay=pay: pay)
        monkeypatch.setattr(choice, "tiles_pay", lambda shape, pay=pay: pay)
        mt.manual_seed(4)
        whole = mt.scaled_dot_product_attention(query, key, value, None, 0.4, enable_gqa=True)
        offset = mt.get_rng_state()["offset"]
        for part in range(3):
            mt.manual_seed(4)
            heads = slice(2 * part, 2 * part + 2)
            found = public(
                query[:, heads], key[:, part : part + 1], value[:, part : part + 1], None, 0.4,
                enable_gqa=True, group=ALONE, heads=(part, 3),
            )  # fmt: skip
            np.testing.assert_allclose(found.numpy(), whole[:, heads].numpy(), rtol=1e-12)
            assert mt.get_rng_state()["offset"] == offset
