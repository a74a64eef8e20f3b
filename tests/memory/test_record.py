"""Recorded memory equals sums computed by hand."""

import gc

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import Function, modes
from minitorch_attn.errors import GraphError
from minitorch_attn.memory.block import (
    GRADIENT,
    ON_ITS_WAY,
    PARAMETER,
    RESULT,
    SAVED,
    YOURS,
)


class Twice(Function):
    """2 x; keeps its input and asks for it, though it need not."""

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved
        return grad * 2.0


class Inner(Function):
    """2 x; keeps an array of its own from inside, as long as x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        ctx.save_intermediate(x * 0.0)
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0

    @staticmethod
    def composed(ctx, x):
        return x * 2.0


def kinds_at_peak(memory):
    sizes = {kind: held[memory.peak_moment] for kind, held in memory.by_kind().items()}
    assert sum(sizes.values()) == memory.peak
    return {kind: size for kind, size in sizes.items() if size}


def test_a_chain_by_hand(make):
    x = make(125)  # 1000 bytes
    with mt.memory.track() as memory:
        y = Twice.apply(Twice.apply(x))
        assert memory.held == 3000  # x, what is between, y
        del y
        assert memory.held == 1000
    assert memory.peak == 3000 and memory.peak_op == "Twice"
    assert kinds_at_peak(memory) == {YOURS: 1000, SAVED: 1000, RESULT: 1000}
    first, second, third = sorted(memory.at_peak(), key=lambda block: block.born)
    moment = memory.peak_moment
    assert first.op == "-" and first.kept_at(moment) == ["Twice"] and first.line is None
    assert second.op == "Twice" and second.kept_at(moment) == ["Twice"]
    assert third.kept_at(moment) == [] and third.died > moment and first.died is None
    assert "Twice.apply(Twice.apply(x))" in second.line.source
    assert second.shape == (125,) and second.dtype == mt.float64


def test_views_are_not_counted_again(make):
    x = make(5, 25)
    with mt.memory.track() as memory:
        y = Twice.apply(x)
        z = y.reshape(25, 5).T[2:, :3]
        assert memory.held == 2000
        del y
        assert memory.held == 2000  # the view holds all of it
        mt.broadcast_to(z[0], (100, 3))
        assert memory.held == 2000
        del z
    assert memory.held == 1000 and memory.peak == 2000 and len(memory.blocks) == 2
    made = memory.blocks[1]
    assert made.shape == (5, 25) and made.nbytes == 1000


def test_a_view_seen_first_counts_the_whole_buffer(make):
    whole = make(125, requires_grad=False)
    part = whole[:5]
    with mt.memory.track() as memory:
        Twice.apply(part)
    assert memory.peak == 1000 + 40


def test_what_is_kept_from_inside_and_when_it_is_let_go(make):
    x = make(125)
    with mt.memory.track() as memory:
        y = Inner.apply(x)
        assert memory.held == 3000
        y.backward(mt.ones(125, dtype="float64", device=x.device))
        # x, y, and the gradient of x; the incoming one is gone
        assert memory.held == 3000
    # x, y, inside; the gradient of y, and of x
    assert memory.peak == 5000 and memory.peak_op == "Inner.backward"
    # The gradient of x becomes x.grad without a copy, so it counts as that from the start.
    found = {YOURS: 1000, RESULT: 1000, SAVED: 1000, ON_ITS_WAY: 1000, GRADIENT: 1000}
    assert kinds_at_peak(memory) == found
    inside = memory.blocks[2]
    assert inside.kept_at(inside.born) == ["Inner"] and inside.died is not None
    assert memory.blocks[-1].made_as == GRADIENT and memory.blocks[-1].died is None


def test_a_result_that_outlives_the_graph_is_no_longer_saved(make):
    x = make(125)
    with mt.memory.track() as memory:
        y = x.tanh()
        y.sum().backward()
        last = memory.blocks[1]
    assert last.op == "Tanh" and last.died is None and y.shape == (125,)
    assert last.kind_at(last.born) == SAVED and last.kind_at(10**6) == RESULT


def test_a_gradient_with_a_graph_is_a_gradient_when_it_has_arrived(make):
    x = make(125)
    with mt.memory.track() as memory:
        x.tanh().sum().backward(create_graph=True)
        held = [block for block in memory.blocks if block.died is None]
    (grad,) = [block for block in held if block.made_as == GRADIENT]
    assert grad.nbytes == 1000 and x.grad is not None
    x.grad = None


def test_without_recording_nothing_is_kept(make):
    x = make(125)
    with mt.no_grad(), mt.memory.track() as memory:
        y = Inner.apply(Inner.apply(Inner.apply(x)))
        assert memory.held == 2000
    # x, one result, what is inside the next, and its result
    assert memory.peak == 4000 and y is not None


def test_a_step_of_a_layer_by_hand(device):
    layer = mt.nn.Linear(7, 5, dtype="float64").to(device)
    x = mt.ones(3, 7, dtype="float64", device=device)
    weights, rows, results = 8 * (35 + 5), 8 * 21, 8 * 15
    with mt.memory.track() as memory:
        y = layer(x)
        assert memory.held == weights + rows + results
        g = mt.ones(3, 5, dtype="float64", device=device)
        y.backward(g)
        # the results, what they were made of, and the gradients; g is counted while it travels
        assert memory.held == 2 * weights + rows + 2 * results
    found = kinds_at_peak(memory)
    assert found[PARAMETER] == weights
    gradients = {block.op for block in memory.blocks if block.made_as == GRADIENT}
    assert gradients <= {"gradient", "Linear.backward"}  # copied, or kept as they were computed
    assert layer.weight.grad is not None


def chain(x, length):
    for _ in range(length):
        x = Twice.apply(x)
    return x


def test_checkpoints_save_as_many_bytes_as_they_should(make):
    """Six pieces of five operations on 1000 bytes each."""
    x = make(125)

    def peak(how):
        gc.collect()
        with mt.memory.track() as memory:
            y = x
            for _ in range(6):
                y = how(y)
            held = memory.held
            y.backward(mt.ones(125, dtype="float64", device=x.device))
        x.grad = None
        return held, memory.peak

    # Forward: x and all 30 results. Backward adds two gradients, of an output and of an input.
    assert peak(lambda y: chain(y, 5)) == (31_000, 33_000)
    # Forward: x and the outputs of the six pieces. Backward adds the incoming gradient, and the
    # five results of one piece, of which four are saved; the fifth is gone before the gradient
    # of its input is made.
    assert peak(lambda y: mt.checkpoint(chain, y, 5)) == (7_000, 7_000 + 1_000 + 5_000)


def test_the_graph_of_a_checkpoint_keeps_what_was_computed_anew(make):
    x = make(125)
    with mt.memory.track() as memory:
        mt.checkpoint(chain, x, 5).backward(mt.ones(125, dtype="float64", device=x.device))
    saved = memory.by_kind()[SAVED]
    assert max(saved[: len(saved) // 3]) <= 1000  # each is let go at once
    assert max(saved) == 4000
    first = next(block for block in memory.blocks if block.op == "Twice.backward")
    assert saved[first.born] == 4000  # what the graph was given back


def test_memory_of_gpt_with_checkpoints(device):
    from minitorch_attn.models import GPT

    model = GPT(11, 16, embed_dim=24, num_heads=2, num_layers=6).to(device)
    ids = mt.tensor(np.arange(64).reshape(4, 16) % 11, device=device)

    def saved(how):
        with mt.memory.track() as memory:
            x = model.embed(ids)
            for block in model.blocks:
                x = how(block, x)
            model.norm(x).sum().backward()
        model.zero_grad()
        return max(memory.by_kind()[SAVED])

    plain, checked = saved(lambda block, x: block(x)), saved(mt.checkpoint)
    assert checked < 0.3 * plain


def test_only_this_thread_and_only_inside(make):
    x = make(125)
    memory = mt.memory.track()
    with memory, pytest.raises(GraphError):
        Twice.apply(x)
        raise GraphError("stop")
    assert modes.watchers == 0
    Twice.apply(x)
    assert len(memory.blocks) == 2


def test_the_table_names_what_holds_the_peak(make):
    x = make(125)
    with mt.memory.track() as memory:
        y = chain(x, 3)
        Inner.apply(y)
    text = str(memory)
    assert text.startswith("peak 5.86 KiB, reached in Inner")
    row = next(line for line in text.splitlines() if "Twice" in line)
    assert "1.95 KiB" in row and "33%" in row and "(125,) x2" in row and "float64" in row
    assert "x = Twice.apply(x)" in row and SAVED in row
    short = memory.table(rows=1)
    assert "smaller blocks" in short and len(short.splitlines()) < len(text.splitlines())
    assert "your tensor 1000 B" in short


def test_the_picture_shows_the_sums(make, tmp_path):
    from minitorch_attn.viz import memory_figure

    x = make(125)
    with mt.memory.track() as memory:
        chain(x, 3)
    figure = memory_figure(memory.by_kind(), memory.peak_moment, memory.peak_op)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [RESULT, SAVED, YOURS]
    (axes,) = figure.axes
    assert "3.91 KiB in Twice" in [text.get_text() for text in axes.texts]
    memory.save_picture(tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
    memory_figure(mt.memory.track().by_kind(), 0)  # nothing happened: an empty picture


def test_owners_count_from_the_start_with_the_state_of_the_optimiser(device):
    layer = mt.nn.Linear(7, 5, dtype="float64").to(device)
    optimizer = mt.optim.AdamW(layer.parameters())
    x, weights = mt.ones(3, 7, dtype="float64", device=device), 8 * (35 + 5)

    def step():
        layer(x).sum().backward()
        optimizer.step()

    step()
    with mt.memory.track(layer, optimizer) as memory:
        held = {kind: sizes[-1] for kind, sizes in memory.by_kind().items() if sizes[-1]}
        step()
    assert held[PARAMETER] == weights and held[GRADIENT] == weights
    assert 2 * weights <= held["optimizer state"] <= 2 * weights + 16  # and the count of steps
