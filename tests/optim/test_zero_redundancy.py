"""ZeroRedundancyOptimizer: the updates of the plain optimizer, with a share of its state."""

import numpy as np
import pytest
from distributed.ranks import run_ranks

import minitorch_attn as mt
from minitorch_attn import distributed as dist
from minitorch_attn.errors import ArgumentError, CheckpointError
from minitorch_attn.optim import ZeroRedundancyOptimizer

CLASSES = {
    "SGD": dict(lr=0.1, momentum=0.9, nesterov=True),
    "AdamW": dict(lr=0.01, weight_decay=0.1),
    "RMSprop": dict(lr=0.01),
    "NAdam": dict(lr=0.01),
    "Adagrad": dict(lr=0.01),
    "Adafactor": dict(lr=0.01),
}


def model_of(seed=1):
    mt.manual_seed(seed)
    layers = [mt.nn.Linear(7, 5), mt.nn.Tanh(), mt.nn.LayerNorm(5), mt.nn.Linear(5, 3)]
    return mt.nn.Sequential(*layers).double()


def groups_of(model):
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "lr": 0.02},
        {"params": [p for p in parameters if p.ndim < 2]},
    ]


def train(model, optimizer, steps, scheduler=None):
    rng = np.random.default_rng(steps)
    for _ in range(steps):
        x = mt.tensor(rng.normal(size=(11, 7)))
        optimizer.zero_grad()
        (model(x) ** 2).sin().mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def check_equal(model, other):
    for name, p in model.state_dict().items():
        np.testing.assert_allclose(
            p.numpy(), other.state_dict()[name].numpy(), rtol=1e-12, atol=1e-14, err_msg=name
        )


# Functions that every rank calls


def equals_the_plain_optimizer():
    dist.init_process_group("mpi")
    for name, options in CLASSES.items():
        optimizer_class = getattr(mt.optim, name)
        alone, model = model_of(), model_of()
        plain = optimizer_class(groups_of(alone), **options)
        shared = ZeroRedundancyOptimizer(groups_of(model), optimizer_class, **options)
        assert [g["lr"] for g in shared.param_groups] == [0.02, options["lr"]]
        pairs = (alone, plain), (model, shared)
        for trained, optimizer in pairs:
            factor = mt.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
            train(trained, optimizer, 5, factor)
        check_equal(model, alone)
        to = dist.get_world_size() - 1
        shared.consolidate_state_dict(to)
        if dist.get_rank() != to:
            with pytest.raises(CheckpointError, match="consolidate_state_dict"):
                shared.state_dict()
            continue
        got, expected = shared.state_dict(), plain.state_dict()
        assert got["param_groups"] == expected["param_groups"]
        assert list(got["state"]) == list(expected["state"])
        for number, entry in expected["state"].items():
            assert set(got["state"][number]) == set(entry)
            for key, value in entry.items():
                other = got["state"][number][key]
                np.testing.assert_allclose(
                    np.asarray(other), np.asarray(value), rtol=1e-12, atol=1e-14
                )
                assert getattr(other, "dtype", None) == getattr(value, "dtype", None)


def splits_the_state():
    """The bytes on each rank: a share of 1/N, up to the size of the largest parameter."""
    dist.init_process_group("mpi")
    mt.manual_seed(1)
    model = mt.nn.Sequential(*[mt.nn.Linear(13, 13) for _ in range(12)])
    shared = ZeroRedundancyOptimizer(model.parameters(), mt.optim.AdamW)
    model(mt.ones(2, 13)).sum().backward()
    shared.step()
    mine = sum(
        t.array.nbytes for entry in shared.state.values() for n, t in entry.items() if n != "step"
    )
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    whole = 2 * sum(p.array.nbytes for p in model.parameters())
    assert sum(everyone) == whole  # each number is on one rank
    largest = 2 * 4 * 13 * 13
    share = whole / dist.get_world_size()
    assert all(abs(size - share) <= largest for size in everyone), (everyone, share)
    assert dist.get_world_size() != 4 or max(everyone) == whole / 4  # 12 equal layers


def saves(folder):
    dist.init_process_group("mpi")
    model = model_of()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), mt.optim.AdamW, lr=0.01)
    train(model, optimizer, 3)
    optimizer.consolidate_state_dict()
    if dist.get_rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        mt.save(state, f"{folder}/state.safetensors")


def resumes(folder):
    dist.init_process_group("mpi")
    state = mt.load(f"{folder}/state.safetensors")
    model = model_of(seed=2)
    model.load_state_dict(state["model"])
    optimizer = ZeroRedundancyOptimizer(model.parameters(), mt.optim.AdamW, lr=0.5)
    optimizer.load_state_dict(state["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.01
    train(model, optimizer, 4)
    alone = model_of()
    plain = mt.optim.AdamW(alone.parameters(), lr=0.01)
    train(alone, plain, 3)
    train(alone, plain, 4)
    check_equal(model, alone)


def more_ranks_than_parameters():
    dist.init_process_group("mpi")
    x, y = (mt.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    shared = ZeroRedundancyOptimizer([x], mt.optim.SGD, lr=0.5)
    for p in (x, y):
        p.square().sum().backward()
    z = mt.tensor([5.0], requires_grad=True)
    z.sum().backward()
    shared.add_param_group({"params": [z, y], "lr": 0.25})
    shared.step()
    assert x.tolist() == [0.0, 0.0] and y.tolist() == [0.5, 1.0] and z.tolist() == [4.75]
    shared.load_state_dict({"state": {}, "param_groups": [
        {"params": [0], **{n: v for n, v in g.items() if n != "params"}} if i == 0 else
        {"params": [1, 2], **{n: v for n, v in g.items() if n != "params"}}
        for i, g in enumerate(shared.param_groups)
    ]})  # fmt: skip


def invalid_arguments():
    dist.init_process_group("mpi")
    parameters = list(mt.nn.Linear(3, 2).parameters())
    for wrong in (mt.optim.LBFGS, "AdamW", dict, ZeroRedundancyOptimizer):
        with pytest.raises(ArgumentError, match="ZeroRedundancyOptimizer"):
            ZeroRedundancyOptimizer(parameters, wrong)
    with pytest.raises(ArgumentError, match="parameters_as_bucket_view"):
        ZeroRedundancyOptimizer(parameters, mt.optim.SGD, parameters_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(parameters, mt.optim.SGD, lr=0.1)
    with pytest.raises(ArgumentError, match="to is not a rank"):
        optimizer.consolidate_state_dict(dist.get_world_size())
    optimizer.consolidate_state_dict()
    if dist.get_rank() == 0:
        state = optimizer.state_dict()
        other = ZeroRedundancyOptimizer(parameters[:1], mt.optim.SGD, lr=0.1)
        with pytest.raises(ArgumentError, match="parameter groups do not match"):
            other.load_state_dict(state)
    optimizer.step()
    if dist.get_world_size() > 1:
        with pytest.raises(CheckpointError, match="since the last step"):
            optimizer.state_dict()


# Tests


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_equals_the_plain_optimizer(ranks):
    run_ranks(ranks, equals_the_plain_optimizer)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_each_rank_has_a_share_of_the_state(ranks):
    run_ranks(ranks, splits_the_state)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (2, 1)])
def test_resumes_with_another_world_size(before, after, tmp_path):
    run_ranks(before, saves, str(tmp_path))
    run_ranks(after, resumes, str(tmp_path))


@pytest.mark.parametrize("ranks", [1, 4])
def test_small_and_added_groups(ranks):
    run_ranks(ranks, more_ranks_than_parameters)


@pytest.mark.parametrize("ranks", [1, 2])
def test_errors(ranks):
    run_ranks(ranks, invalid_arguments)
