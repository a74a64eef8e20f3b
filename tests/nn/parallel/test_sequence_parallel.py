"""Sequence parallelism on 1 to 4 ranks: losses, gradients, dropout, messages and memory."""

import numpy as np
import pytest
from distributed.ranks import run_ranks
from distributed.tiny_gpt import close, gpt, one_process_loss, texts, train, trained_alone
from marks import slow_except

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.memory.block import SAVED
from minitorch_attn.nn.parallel import RingAttention, SequenceParallel

RANKS = (1, 2, 3, 4)


def check_gpt():
    mt.distributed.init_process_group()
    size = mt.distributed.get_world_size()
    ids, targets = texts(2, 24)
    targets[0, 3:9] = -100  # tokens that do not count, spread unevenly over the ranks
    for dropout, order in ((0.0, "zigzag"), (0.2, "zigzag"), (0.2, "contiguous")):
        whole, expected, gradients = trained_alone(dropout, ids, targets)
        model = gpt(dropout)
        names = [f"model.{name}" for name, _ in model.named_parameters()]
        split = SequenceParallel(model, order=order)
        assert [name for name, _ in split.named_parameters()] == names
        messages = []

        def step(split=split, messages=messages):
            with mt.distributed.count_messages() as traffic:
                loss = split.loss(ids, targets)
                loss.backward()
                split.sum_gradients()
            messages.append(traffic)
            return loss.item()

        losses, found = train(split, step)
        close(losses, expected)
        assert abs(losses[4] - losses[0]) > 0.1
        for gradient, expected_gradient in zip(found, gradients.values(), strict=True):
            close(gradient, expected_gradient)
        check_messages(messages, size, sum(p.numel() for p in model.parameters()))
        whole.eval(), split.eval()
        with mt.no_grad():
            close(split.gather(split(ids)).numpy(), whole(ids).numpy(), 1e-10)


def check_messages(messages, size, parameters):
    """Three blocks: in each, N - 1 parts forward, and N - 1 parts and N gradients backward."""
    part = 2 * (2 * 24 // size * 24) * 8  # keys and values: batch 2, 24 / N tokens, 24 features
    sends = 3 * (3 * size - 2) if size > 1 else 0
    for traffic in messages:
        assert (traffic["send"].messages, traffic["send"].bytes) == (sends, sends * part)
        assert traffic["all_reduce"].calls == 2  # the loss, and all gradients at once
        assert traffic["all_reduce"].payload == 8 + 8 * parameters
        assert traffic.calls == 2 * sends + 2


@pytest.mark.parametrize("size", slow_except((2,), RANKS))
def test_gpt_trains_as_in_one_process(size):
    run_ranks(size, check_gpt)


def check_drawn(draws):
    mt.distributed.init_process_group()
    rng, size = np.random.default_rng(4), mt.distributed.get_world_size()
    for number in range(draws):
        heads, chunk = int(rng.choice([1, 2, 3, 5])), int(rng.choice([1, 2, 3, 5]))
        ids, targets = texts(int(rng.choice([1, 2, 3])), 2 * size * chunk, seed=number)
        sizes = {
            "context_length": 2 * size * chunk + int(rng.integers(3)), "num_heads": heads,
            "embed_dim": heads * int(rng.choice([2, 3, 7])), "num_layers": 1 + number % 2,
        }  # fmt: skip
        dropout = float(rng.choice([0.0, 0.3]))
        model = gpt(dropout, **sizes)
        mt.manual_seed(5)
        expected = one_process_loss(model, ids, targets)
        expected.backward()
        split = SequenceParallel(gpt(dropout, **sizes), order=("zigzag", "contiguous")[number % 2])
        mt.manual_seed(5)
        loss = split.loss(ids, targets)
        loss.backward()
        split.sum_gradients()
        close(loss.item(), expected.item())
        for one, other in zip(model.parameters(), split.parameters(), strict=True):
            close(other.grad.numpy(), one.grad.numpy())


@pytest.mark.parametrize("size", RANKS)
def test_drawn_models(size):
    run_ranks(size, check_drawn, 8)


def check_float32():
    mt.distributed.init_process_group()
    ids, targets = texts(2, 24)
    whole, split = gpt().float(), SequenceParallel(gpt().float())
    one_process_loss(whole, ids, targets).backward()
    split.loss(ids, targets).backward()
    split.sum_gradients()
    for one, other in zip(whole.parameters(), split.parameters(), strict=True):
        close(other.grad.numpy(), one.grad.numpy(), 1e-5)
        assert other.grad.dtype == mt.float32


def test_float32_gradients_to_1e_5():
    run_ranks(2, check_float32)


def saved_bytes():
    """Bytes of activations that the graph of one loss keeps on this rank."""
    mt.distributed.init_process_group()
    model = SequenceParallel(gpt(0.1, context_length=240))
    ids, targets = texts(2, 240)
    with mt.memory.track(model) as memory:
        loss = model.loss(ids, targets)
        saved = memory.by_kind()[SAVED][-1]
    assert loss.item() > 0
    return saved


@pytest.mark.slow
def test_saved_activations_are_divided_by_the_number_of_ranks():
    (alone,) = run_ranks(1, saved_bytes)
    assert alone > 1_000_000
    for size in (2, 4):
        for saved in run_ranks(size, saved_bytes):
            assert saved * size == pytest.approx(alone, rel=0.01)


def check_attention():
    """A layer by itself: rotary positions, masks of own rows, and shared parameters."""
    mt.distributed.init_process_group()
    rank, size = mt.distributed.get_rank(), mt.distributed.get_world_size()
    mt.manual_seed(1)
    attention = nn.Attention(12, 4, num_kv_heads=2).double()
    ring = RingAttention(attention)
    assert ring.q_proj is attention.q_proj and ring.out_proj is attention.out_proj
    x = mt.tensor(np.random.default_rng(2).normal(size=(3, 4 * size, 12)))
    bias = mt.tensor(np.random.default_rng(3).normal(size=(4, 4 * size, 4 * size)))
    part = mt.distributed.split_sequence(x, rank, size)
    for options in ({}, {"bias": bias}, {"mask": nn.masks.causal(4 * size)}):
        expected = mt.distributed.split_sequence(attention(x, **options), rank, size)
        close(ring(part, **options).detach().numpy(), expected.detach().numpy())
    with pytest.raises(ArgumentError, match="cache is not supported"):
        ring(part, cache=nn.KVCache().layer(0))
    ring.weight_hooks.append(lambda *_: None)
    with pytest.raises(ArgumentError, match="weight hooks are not supported"):
        ring(part)


def check_errors():
    mt.distributed.init_process_group()
    with pytest.raises(ArgumentError, match="without embed, decode, head"):
        SequenceParallel(nn.Linear(2, 3))
    model = SequenceParallel(gpt())
    with pytest.raises(ArgumentError, match="does not have an nn.Attention"):
        SequenceParallel(model.model)
    with pytest.raises(ShapeError, match="pad the sequence to 24 tokens"):
        model(texts(1, 23)[0])
    ring = RingAttention(nn.Attention(6, 2), order="contiguous")
    with pytest.raises(ArgumentError, match="the same number of queries and keys"):
        ring(mt.zeros(1, 2, 6), mt.zeros(1, 3, 6), is_causal=True)


@pytest.mark.parametrize("check", [check_attention, check_errors])
def test_one_layer_and_errors(check):
    run_ranks(2, check)
