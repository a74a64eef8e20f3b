"""Workers that divide examples, heads or tokens train as one process does, and resume each other.

In float64, with dropout, clipping, padding in some rows, and a learning rate that changes.
"""

import importlib.util

import numpy as np
import pytest
from distributed.ranks import run_ranks
from training.padded_batches import VOCABULARY, PaddedBatches, count, loss_function
from training.recipes.test_recipes import NEEDS_DIGITS, SMALL

import minitorch_attn as mt
from minitorch_attn import distributed as dist
from minitorch_attn.errors import ArgumentError, CheckpointError
from minitorch_attn.models import GPT
from minitorch_attn.training import Loop, RunFolder
from minitorch_attn.training.recipes import RECIPES, base, load_recipe
from minitorch_attn.training.worker_splits import SPLITS
from minitorch_attn.training.workers import WorkerLoop, loop_class

ROWS, TOKENS, STEPS, HALF = 5, 12, 8, 5
TOLERANCE = 1e-10


def batches():
    """Rows of ids that count upwards from anywhere."""
    counting = np.arange(TOKENS + 1)
    return PaddedBatches(
        lambda rng: (rng.integers(0, VOCABULARY, (ROWS, 1)) + counting) % VOCABULARY
    )


def evaluate(model):
    return loss_function(model, next(batches())).item()


def make(kind=Loop, heads=12, tokens=TOKENS, run=None, **more):
    """Return a loop and the list of what it will log."""
    mt.manual_seed(1)
    model = GPT(VOCABULARY, tokens, embed_dim=24, num_heads=heads, num_layers=2, dropout=0.3)
    optimizer = mt.optim.AdamW(model.double().parameters(), lr=0.02)
    logged = []
    loop = kind(
        model, optimizer, batches(), loss_function, max_norm=0.5, log_every=1, count=count,
        scheduler=mt.optim.lr_scheduler.StepLR(optimizer, 2, 0.7), evaluate=evaluate,
        evaluate_every=3, save_every=HALF, run=run, on_log=[logged.append], **more,
    )  # fmt: skip
    return loop, logged


def compare(got, expected):
    assert len(got) == len(expected) > 1
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            assert ours[name] == pytest.approx(value, abs=TOLERANCE), (name, theirs["step"])


def compare_states(got, expected, path="state"):
    """Compare nested states: tensors to round-off, and everything else exactly."""
    if isinstance(expected, dict):
        assert list(got) == list(expected), path
        for name, value in expected.items():
            compare_states(got[name], value, f"{path}.{name}")
    elif isinstance(expected, (list, tuple)) and path != "state.unlogged":
        assert len(got) == len(expected), path
        for number, values in enumerate(zip(got, expected, strict=True)):
            compare_states(*values, f"{path}.{number}")
    elif isinstance(expected, mt.Tensor):
        assert got.shape == expected.shape and got.dtype == expected.dtype, path
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=TOLERANCE, err_msg=path)
    elif path not in ("state.seconds", "state.unlogged"):
        assert got == expected, path


# Functions that every rank calls


def trains_as_one_process(split):
    dist.init_process_group("mpi")
    alone, expected = make()
    alone.train(STEPS)
    loop, got = make(WorkerLoop, split=split)
    loop.train(STEPS)
    compare(got, expected)
    norms = [entry["gradient_norm"] for entry in expected[1:]]
    assert min(norms) > 0.5 and expected[-1]["loss"] < 0.9 * expected[1]["loss"]
    whole, (group,) = set(loop.model.parameters()), loop.optimizer.param_groups
    shared = [p.sum().item() for p in group["params"] if p in whole]
    assert len(shared) == len(whole) - (2 * (6 + 1 + 2 + 1) if split == "tensor" else 0)
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, shared)
    assert everyone == [shared] * len(everyone)  # bit for bit
    state = loop.state_dict()
    if dist.get_rank() == 0:
        compare_states(state, alone.state_dict())
        layers = {type(layer).__module__ for layer in loop.model.modules()}
        assert not any("parallel" in name for name in layers)  # those of one process


def saves(folder, split):
    """Train for some steps, with a checkpoint at the last one."""
    dist.init_process_group("mpi")
    run = RunFolder.create(folder, {}) if dist.get_rank() == 0 else None
    loop, _ = make(WorkerLoop, run=run, split=split)
    assert loop.train(HALF)


def resumes(folder, split):
    """Go on from the checkpoint, and compare with a run that was not interrupted."""
    dist.init_process_group("mpi")
    alone, expected = make()
    alone.train(STEPS)
    loop, got = make(WorkerLoop, split=split)
    loop.load_state_dict(RunFolder.open(folder).checkpoints.load()[1])
    loop.train(STEPS)
    compare(got, [entry for entry in expected if entry["step"] > HALF])


def divides(split):
    """Each worker of a tensor split has a part of the weights, of their gradients and state."""
    dist.init_process_group("mpi")
    loop, _ = make(WorkerLoop, split=split)
    loop.train(1)
    size = dist.get_world_size()
    trained = [p for group in loop.optimizer.param_groups for p in group["params"]]
    whole = dict(loop.model.named_parameters())
    parts = {
        name: p.shape
        for (name, w), p in zip(whole.items(), trained, strict=True)
        if p.shape != w.shape
    }
    for name, shape in parts.items():
        assert np.prod(shape) * size == whole[name].numel(), name
    assert len(parts) == (2 * (6 + 1 + 2 + 1) if split == "tensor" else 0)
    for p in trained:
        assert p.grad.shape == p.shape == loop.optimizer.state[p]["exp_avg"].shape


def refuses():
    dist.init_process_group("mpi")  # three ranks
    with pytest.raises(ArgumentError, match="num_heads of blocks.0.attention is not divisible"):
        make(WorkerLoop, heads=4, split="tensor")
    with pytest.raises(ArgumentError, match="number of tokens is not divisible"):
        make(WorkerLoop, tokens=13, split="sequence")
    loop, _ = make(WorkerLoop, split="tensor")
    state = loop.state_dict()
    short = {**state["optimizer"], "state": {5: {"step": mt.tensor(1.0), "exp_avg": mt.zeros(1)}}}
    for wrong in ({}, {"state": {0: 5}, "param_groups": []}, short):
        with pytest.raises(CheckpointError):
            loop.load_state_dict({**state, "optimizer": wrong})


def trains_recipes(names):
    """Train recipes whose models have more than GPT's layers, as one process and by tensor."""
    dist.init_process_group("mpi")
    for name in names:
        found = []
        for split in (None, "tensor"):
            options = {**SMALL[name], "steps": 4, "warmup": 1, "dropout": 0.2, "dtype": "float64"}
            recipe = load_recipe(name)({**options, "heads": 2, "eval_every": 2})
            recipe.split, logged = split, []
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(base, "loop_class", loop_class if split else lambda _: Loop)
                loop = recipe.loop(on_log=[logged.append])
            loop.log_every = 1
            loop.train(4)
            found.append(logged)
        compare(*found[::-1])


# Tests


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.slow
def test_trains_as_one_process(ranks, split):
    run_ranks(ranks, trains_as_one_process, split)


@pytest.mark.parametrize(("before", "ranks"), [("tensor", 2), ("tensor", 3), ("sequence", 2)])
def test_any_split_resumes_another(before, ranks, tmp_path):
    folder = tmp_path / "run"
    run_ranks(ranks, saves, str(folder), before)
    alone, expected = make()
    alone.train(STEPS)
    single, got = make()
    single.load_state_dict(RunFolder.open(folder).checkpoints.load()[1])
    single.train(STEPS)
    compare(got, [entry for entry in expected if entry["step"] > HALF])
    for after, number in (("data", 2), ("sequence", 3), ("tensor", 4)):
        run_ranks(number, resumes, str(folder), after)


@pytest.mark.parametrize("split", SPLITS)
def test_what_each_worker_keeps(split):
    run_ranks(2, divides, split)


@pytest.mark.slow
def test_recipes_with_a_tensor_split():
    names = {name for name in RECIPES if "tensor" in load_recipe(name).splits}
    assert names == {"gpt", "dates", "t5", "vit", "swin", "mae", "igpt", "mask-predict"}
    if importlib.util.find_spec("sklearn") is None:
        names -= NEEDS_DIGITS
    run_ranks(2, trains_recipes, sorted(names))
    assert [n for n in RECIPES if "sequence" in load_recipe(n).splits] == ["gpt"]


def test_errors():
    run_ranks(3, refuses)
