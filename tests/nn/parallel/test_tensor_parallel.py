"""Tensor parallelism on 1 to 4 ranks: outputs, gradients, dropout and messages of one process."""

import numpy as np
import pytest
from distributed.ranks import run_ranks
from distributed.tiny_gpt import close, gpt, one_process_loss, texts, train, trained_alone
from marks import slow_except

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError
from minitorch_attn.nn.parallel import (
    ColumnParallelLinear,
    RowParallelLinear,
    gather_state_dict,
    tensor_parallel,
)

RANKS = (1, 2, 3, 4)


def own(array, axis):
    """This rank's part of an array."""
    rank, size = mt.distributed.get_rank(), mt.distributed.get_world_size()
    return np.split(np.asarray(array), size, axis)[rank]


def compare_pair(first, second, one, two, rng, tolerance):
    """Compare two layers with split ones: Y = sum_k GELU(X A_k) B_k, and all gradients."""
    x, g = rng.normal(size=(2, 3, 5)), mt.tensor(rng.normal(size=(2, 3, 7)))
    whole, part = mt.tensor(x, requires_grad=True), mt.tensor(x, requires_grad=True)
    expected = second(nn.functional.gelu(first(whole)))
    expected.backward(g)
    y = two(nn.functional.gelu(one(part)))
    y.backward(g)
    close(y.detach().numpy(), expected.detach().numpy(), tolerance)
    close(part.grad.numpy(), whole.grad.numpy(), tolerance)
    close(one.weight.grad.numpy(), own(first.weight.grad.numpy(), 0), tolerance)
    close(two.weight.grad.numpy(), own(second.weight.grad.numpy(), 1), tolerance)
    if first.bias is None:
        assert one.bias is None and two.bias is None
        return
    close(one.bias.grad.numpy(), own(first.bias.grad.numpy(), 0), tolerance)
    close(two.bias.grad.numpy(), second.bias.grad.numpy(), tolerance)


def check_linear():
    mt.distributed.init_process_group()
    rng = np.random.default_rng(0)
    for bias in (True, False):
        mt.manual_seed(1)
        first, second = nn.Linear(5, 12, bias), nn.Linear(12, 7, bias)
        mt.manual_seed(1)
        one, two = ColumnParallelLinear(5, 12, bias), RowParallelLinear(12, 7, bias)
        np.testing.assert_array_equal(one.weight.detach(), own(first.weight.detach(), 0))
        first, second = first.double(), second.double()
        one = ColumnParallelLinear.from_linear(first)
        two = RowParallelLinear.from_linear(second)
        compare_pair(first, second, one, two, rng, 1e-12)
    gathered = ColumnParallelLinear.from_linear(first, gather_output=True)
    scattered = RowParallelLinear.from_linear(second, input_is_parallel=False)
    for whole, layer, width in ((first, gathered, 5), (second, scattered, 12)):
        x, found = rng.normal(size=(3, width)), []
        for module in (whole, layer):
            a = mt.tensor(x, requires_grad=True)
            y = module(a)
            y.square().sum().backward()
            found.append((y.detach().numpy(), a.grad.numpy()))
        close(found[1][0], found[0][0])
        close(found[1][1], found[0][1])


@pytest.mark.parametrize("size", RANKS)
def test_linear_layers(size):
    run_ranks(size, check_linear)


def check_gpt():
    mt.distributed.init_process_group()
    size = mt.distributed.get_world_size()
    ids, targets = texts(2, 11)
    for dropout in (0.0, 0.2):
        whole, expected, gradients = trained_alone(dropout, ids, targets)
        split = tensor_parallel(gpt(dropout))
        assert split.blocks[0].attention.num_heads == 12 // size
        start, messages = gather_state_dict(split), []

        def step(split=split, messages=messages):
            with mt.distributed.count_messages() as traffic:
                loss = one_process_loss(split, ids, targets)
                loss.backward()
            messages.append((traffic["all_reduce"], traffic.calls))
            return loss.item()

        losses, found = train(split, step)
        close(losses, expected)
        assert abs(losses[4] - losses[0]) > 0.1
        compare_gradients(split, found, gradients)
        calls, payload = 4 * 3, 2 * 11 * 24 * 8  # per block: two forward, two backward
        for all_reduce, every in messages:
            assert every == all_reduce.calls == calls
            assert all_reduce.payload == calls * payload
        for name, value in start.items():
            np.testing.assert_array_equal(value.numpy(), gpt().state_dict()[name].numpy())
        restored = gpt()
        restored.load_state_dict(gather_state_dict(split))
        for model in (whole, split, restored):
            model.eval()
        with mt.no_grad():
            close(split(ids).numpy(), whole(ids).numpy(), 1e-10)  # after five updates
            close(restored(ids).numpy(), split(ids).numpy())


def compare_gradients(split, found, expected, tolerance=1e-12):
    """Compare the rank's part of each gradient; `expected` maps names to whole gradients."""
    parts = {}
    for path, module in split.named_modules():
        for name, axis in getattr(module, "split_axes", {}).items():
            parts[f"{path}.{name}"] = axis
    assert len(parts) == 3 * (3 * 2 + 1 + 2 + 1)
    names = [name for name, _ in split.named_parameters()]
    for name, gradient in zip(names, found, strict=True):
        whole = expected[name]
        close(gradient, own(whole, parts[name]) if name in parts else whole, tolerance)


@pytest.mark.parametrize("size", slow_except((2,), RANKS))
def test_gpt_trains_as_in_one_process(size):
    run_ranks(size, check_gpt)


class Layers(nn.Module):
    """Layers that GPT lacks: grouped-query attention, a memory, masks, a gate, inner dropout."""

    def __init__(self, embed, memory, heads, kv_heads, head_dim, hidden, dropout):
        super().__init__()
        self.attention = nn.Attention(
            embed, heads, num_kv_heads=kv_heads, head_dim=head_dim, memory_dim=memory,
            dropout=dropout,
        )  # fmt: skip
        self.gated = nn.GatedFeedForward(embed, hidden, dropout=dropout)
        self.network = nn.FeedForward(embed, hidden, activation="relu", dropout=dropout)

    def forward(self, x, memory, mask, bias):
        x = x + self.attention(x, memory, mask=mask, bias=bias)
        x = x + self.gated(x)
        return x + self.network(x)


def check_layers(draws):
    mt.distributed.init_process_group()
    rng, size = np.random.default_rng(5), mt.distributed.get_world_size()
    for number in range(draws):
        batch, queries, keys, embed, memory = rng.choice([1, 2, 3, 5, 7], 5)
        kv_heads = size * rng.choice([1, 2, 3])
        heads, hidden = kv_heads * rng.choice([1, 2]), size * rng.choice([1, 5, 7])
        sizes = embed, memory, heads, kv_heads, rng.choice([1, 3, 5]), hidden
        one_head = rng.choice([1, heads])
        arrays = (
            rng.normal(size=(batch, queries, embed)), rng.normal(size=(batch, keys, memory)),
            rng.random((batch, heads, queries, keys)) > 0.3,
            rng.normal(size=(one_head, queries, keys)),
        )  # fmt: skip
        g, found = mt.tensor(rng.normal(size=(batch, queries, embed))), []
        for split in (False, True):
            mt.manual_seed(2)
            model = Layers(*map(int, sizes), dropout=0.3 * (number % 2)).double()
            model = tensor_parallel(model) if split else model
            inputs = [mt.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
            mt.manual_seed(6)
            y = model(*inputs)
            y.backward(g)
            after = mt.get_rng_state()["offset"]
            found.append([y.detach(), *[x.grad for x in inputs if x.requires_grad], after])
        for whole, part in zip(*found, strict=True):
            close(np.asarray(part), np.asarray(whole))


@pytest.mark.parametrize("size", RANKS)
def test_drawn_layers(size):
    run_ranks(size, check_layers, 10)


def check_float32():
    mt.distributed.init_process_group()
    ids, targets = texts(2, 11)
    whole, split = gpt().float(), tensor_parallel(gpt().float())
    one_process_loss(whole, ids, targets).backward()
    one_process_loss(split, ids, targets).backward()
    expected = {name: p.grad.numpy() for name, p in whole.named_parameters()}
    compare_gradients(split, [p.grad.numpy() for p in split.parameters()], expected, 1e-5)


def test_float32_gradients_to_1e_5():
    run_ranks(2, check_float32)


def check_errors():
    mt.distributed.init_process_group()
    model = gpt(num_heads=8)
    before = [type(module) for module in model.modules()]
    with pytest.raises(ArgumentError, match="num_heads of blocks.0.attention is not divisible"):
        tensor_parallel(model)
    with pytest.raises(ArgumentError, match="hidden_dim of blocks.0.feed_forward"):
        tensor_parallel(gpt(ff_dim=37))
    assert [type(module) for module in model.modules()] == before
    with pytest.raises(ArgumentError, match="does not have a layer that can be split"):
        tensor_parallel(nn.Sequential(nn.Linear(3, 3)))
    with pytest.raises(ArgumentError, match="not divisible by the number of ranks"):
        ColumnParallelLinear(3, 5)
    feed_forward = tensor_parallel(nn.FeedForward(2, 6))
    assert feed_forward.linear1.weight.shape == (2, 2)


def test_sizes_that_are_not_divisible():
    run_ranks(3, check_errors)
