"""GPipe on 1 to 4 ranks: schedule, losses and gradients of one process, messages."""

import numpy as np
import pytest
from distributed.ranks import run_ranks
from distributed.tiny_gpt import close, gpt, texts, train, trained_alone
from marks import slow_except

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.nn.parallel import GPipe, bubble_fraction, gpipe_schedule, pipeline_layers


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("micro_batches", [1, 2, 3, 7])
def test_schedule(stages, micro_batches):
    schedule = gpipe_schedule(stages, micro_batches)
    when = {
        (kind, m, stage): time
        for stage, row in enumerate(schedule)
        for time, slot in enumerate(row)
        if slot is not None
        for kind, m in [slot]
    }
    assert len(when) == 2 * stages * micro_batches  # each stage, each micro-batch, both ways
    for m in range(micro_batches):
        for stage in range(1, stages):  # inputs arrive before they are needed
            assert when["forward", m, stage - 1] < when["forward", m, stage]
            assert when["backward", m, stage] < when["backward", m, stage - 1]
        assert when["forward", m, stages - 1] < when["backward", m, stages - 1]
    last_forward = max(time for (kind, *_), time in when.items() if kind == "forward")
    assert last_forward < min(time for (kind, *_), time in when.items() if kind == "backward")
    bubble = (stages - 1) / (micro_batches + stages - 1)
    assert bubble_fraction(schedule) == pytest.approx(bubble, abs=1e-15)


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0)])
def test_schedules_without_work(sizes):
    with pytest.raises(ArgumentError, match="must be at least 1"):
        gpipe_schedule(*sizes)


def mean_loss(logits, targets):
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def check_gpt():
    mt.distributed.init_process_group()
    rank, size = mt.distributed.get_rank(), mt.distributed.get_world_size()
    ids, targets = texts(6, 7)
    for tie_weights, micro_batches in ((False, 3), (True, 2), (True, 6)):
        sizes = {"tie_weights": tie_weights}
        whole, expected, gradients = trained_alone(0.0, ids, targets, **sizes)
        model = gpt(**sizes)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        pipeline = GPipe(pipeline_layers(model), micro_batches)
        messages = []

        def step(pipeline=pipeline, messages=messages):
            with mt.distributed.count_messages() as traffic:
                loss = pipeline.step(ids, targets, mean_loss)
            messages.append(traffic["send"])
            return loss

        losses, found = train(pipeline, step)
        close(losses, expected)
        assert abs(losses[4] - losses[0]) > 0.1
        for parameter, gradient in zip(pipeline.parameters(), found, strict=True):
            close(gradient, gradients[names[id(parameter)]])
        check_messages(messages, rank, size, micro_batches, tie_weights)
        if size == 4:
            assert 0 < len(list(pipeline.parameters())) < len(names) / 2
        output = pipeline(ids)
        if rank == size - 1:
            with mt.no_grad():
                close(output.numpy(), whole(ids).numpy(), 1e-10)
        else:
            assert output is None


def check_messages(messages, rank, size, micro_batches, tied):
    """Forward, M activations and one shape; back, M gradients; the tied embedding once each way."""
    activation = (6 // micro_batches) * 7 * 24 * 8
    count = nbytes = 0
    if rank < size - 1:
        count, nbytes = micro_batches + 1, micro_batches * activation + 9 * 8
    if rank > 0:
        count, nbytes = count + micro_batches, nbytes + micro_batches * activation
    if tied and size > 1 and rank in (0, size - 1):
        count, nbytes = count + 1, nbytes + 17 * 24 * 8
    assert {(send.messages, send.bytes) for send in messages} == {(count, nbytes)}


@pytest.mark.parametrize("size", slow_except((2,), (1, 2, 3, 4)))
def test_gpt_trains_as_in_one_process(size):
    run_ranks(size, check_gpt)


def check_drawn(draws):
    mt.distributed.init_process_group()
    rng, size = np.random.default_rng(6), mt.distributed.get_world_size()
    for number in range(draws):
        widths = rng.choice([1, 2, 3, 5, 7], size + 1 + int(rng.integers(4)))
        micro_batches = int(rng.choice([1, 2, 3, 5]))
        batch = micro_batches * int(rng.choice([1, 2, 3]))
        dtype, tolerance = (("float64", 1e-12), ("float32", 1e-5))[number % 4 == 3]
        x = mt.tensor(rng.normal(size=(batch, widths[0])), dtype=dtype)
        y = mt.tensor(rng.normal(size=(batch, widths[-1])), dtype=dtype)
        mt.manual_seed(number)
        layers = [
            nn.Sequential(nn.Linear(int(a), int(b)), nn.Tanh()).to(getattr(mt, dtype))
            for a, b in zip(widths[:-1], widths[1:], strict=True)
        ]
        pipeline = GPipe(layers, micro_batches)
        loss = pipeline.step(x, y, nn.functional.mse_loss)
        found = [p.grad.numpy().copy() for p in pipeline.parameters()]
        pipeline.zero_grad()
        expected = nn.functional.mse_loss(nn.Sequential(*layers)(x), y)
        expected.backward()
        close(loss, expected.item(), tolerance)
        for parameter, gradient in zip(pipeline.parameters(), found, strict=True):
            close(gradient, parameter.grad.numpy(), tolerance)


@pytest.mark.parametrize("size", slow_except((1, 2), (1, 2, 3, 4)))
def test_drawn_layers_and_batches(size):
    run_ranks(size, check_drawn, 12)


def losses_with_dropout():
    mt.distributed.init_process_group()
    ids, targets = texts(6, 7)
    pipeline = GPipe(pipeline_layers(gpt(0.3)), 3)
    return train(pipeline, lambda: pipeline.step(ids, targets, mean_loss), steps=3)[0]


def test_dropout_masks_do_not_depend_on_the_number_of_ranks():
    (alone,) = run_ranks(1, losses_with_dropout)
    ids, targets = texts(6, 7)
    assert alone[0] != trained_alone(0.0, ids, targets)[1][0]
    for losses in run_ranks(3, losses_with_dropout):
        close(losses, alone)


def check_masks_differ():
    """Every layer draws another mask for every micro-batch, and for every batch."""
    mt.distributed.init_process_group()
    mt.manual_seed(2)
    pipeline = GPipe([nn.Dropout(0.5), nn.Dropout(0.5)], 2)
    first, second = (pipeline(mt.ones(2, 400)).numpy() > 0 for _ in range(2))
    for kept in (*first, *second):
        assert 0.17 < kept.mean() < 0.33  # 1 / 4 by two different masks
    rows = [row.tobytes() for row in (*first, *second)]
    assert len(set(rows)) == 4


def test_dropout_masks_differ():
    run_ranks(1, check_masks_differ)


def check_parameter_of_three_stages():
    """One layer used in all stages: the gradient is the sum over its uses."""
    mt.distributed.init_process_group()
    mt.manual_seed(1)
    layer = nn.Linear(5, 5).double()
    x = mt.tensor(np.random.default_rng(0).normal(size=(4, 5)))
    whole = nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), layer)
    nn.functional.mse_loss(whole(x), x).backward()
    expected = [p.grad.numpy().copy() for p in layer.parameters()]
    layer.zero_grad()
    pipeline = GPipe([layer, nn.Tanh(), layer, nn.Tanh(), layer], 2)
    pipeline.step(x, x, nn.functional.mse_loss)
    for parameter, gradient in zip(layer.parameters(), expected, strict=True):
        close(parameter.grad.numpy(), gradient)


def check_errors():
    mt.distributed.init_process_group()
    with pytest.raises(ArgumentError, match="fewer layers than ranks"):
        GPipe([nn.Linear(2, 2)], 1)
    pipeline = GPipe([nn.Linear(2, 2)] * 3, 2)
    with pytest.raises(ShapeError, match="batch is not divisible"):
        if mt.distributed.get_rank() == 0:
            pipeline.step(mt.zeros(3, 2), None, nn.functional.mse_loss)
        else:
            raise ShapeError("the batch is not divisible, as on rank 0")
    with pytest.raises(ArgumentError, match="does not have the layers of a GPT"):
        pipeline_layers(nn.Linear(2, 2))


@pytest.mark.parametrize("check", [check_parameter_of_three_stages, check_errors])
def test_shared_parameters_and_errors(check):
    run_ranks(3, check)
