"""Workers that share each batch train as one process does."""

import pytest
from distributed.ranks import run_ranks
from marks import slow_except
from training.padded_batches import VOCABULARY, PaddedBatches, count, loss_function

import minitorch_attn as mt
from minitorch_attn import distributed as dist
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models import GPT
from minitorch_attn.training import Loop
from minitorch_attn.training.recipes import RECIPES, load_recipe
from minitorch_attn.training.workers import (
    WorkerLoop,
    is_one_of_several,
    launched_size,
    loop_class,
)

ROWS, TOKENS, STEPS = 7, 5, 20


def batches(rows=ROWS):
    """Rows of drawn ids."""
    return PaddedBatches(lambda rng: rng.integers(0, VOCABULARY, (rows, TOKENS + 1)))


def losses_of(loop_class, steps=STEPS, rows=ROWS, **more):
    mt.manual_seed(1)
    model = GPT(VOCABULARY, TOKENS, embed_dim=12, num_heads=3, num_layers=2, dropout=0.3).double()
    optimizer = mt.optim.AdamW(model.parameters(), lr=0.01)
    logged = []
    loop = loop_class(
        model, optimizer, batches(rows), loss_function, max_norm=0.1, log_every=1, count=count,
        on_log=[logged.append], **{"evaluate_every": 0, **more},
    )  # fmt: skip
    loop.train(steps)
    return logged, loop


# Functions that every rank calls


def equals_one_process():
    dist.init_process_group("mpi")
    expected, _ = losses_of(Loop)
    got, loop = losses_of(WorkerLoop)
    assert len(got) == STEPS
    for ours, theirs in zip(got, expected, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], abs=1e-10)
        assert ours["gradient_norm"] == pytest.approx(theirs["gradient_norm"], abs=1e-10)
        assert theirs["gradient_norm"] > 0.1  # clipping has something to do
    sums = [None] * dist.get_world_size()
    dist.all_gather_object(sums, [p.sum().item() for p in loop.model.parameters()])
    assert sums == [sums[0]] * len(sums)  # bit for bit
    assert is_one_of_several() == (dist.get_world_size() > 1)
    made = loop_class("tensor")
    if dist.get_world_size() > 1:
        assert made.func is WorkerLoop and made.keywords == {"split": "tensor"}
    else:
        assert made is Loop


def stops_together():
    dist.init_process_group("mpi")

    def stop(step):
        if step == 3 and dist.get_rank() == dist.get_world_size() - 1:
            loops[0].stop_requested = True

    class Watched(WorkerLoop):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            loops.append(self)

    loops = []
    _, loop = losses_of(Watched, on_step=[stop])
    assert loop.step == 4  # the wish travels with the messages of the next step


def evaluates_on_worker_0():
    """It may draw random numbers: afterwards, all workers go on with the same ones."""
    dist.init_process_group("mpi")
    calls = []

    def evaluate(model):
        calls.append(mt.randn(3).sum().item())
        return {"validation_loss": 1.5, "drawn": calls[-1]}

    logged, _ = losses_of(WorkerLoop, steps=4, evaluate=evaluate, evaluate_every=2)
    assert len(calls) == (3 if dist.get_rank() == 0 else 0)
    mine = [logged, mt.get_rng_state()["counter"]]
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    assert everyone == [mine] * len(everyone)
    assert [entry["step"] for entry in logged if "drawn" in entry] == [0, 2, 4]


def refuses():
    dist.init_process_group("mpi")
    with pytest.raises(ArgumentError, match="fewer examples than there are workers"):
        losses_of(WorkerLoop, steps=1, rows=2)
    with pytest.raises(ArgumentError, match="one thread"):
        losses_of(WorkerLoop, threads=2)
    norm = mt.nn.Sequential(mt.nn.Linear(3, 2), mt.nn.BatchNorm1d(2))
    with pytest.raises(ArgumentError, match="batch normalization"):
        WorkerLoop(norm, None, None, loss_function)


# Tests


@pytest.mark.parametrize("ranks", slow_except((1, 2), [1, 2, 3, 4]))
def test_equals_one_process(ranks):
    run_ranks(ranks, equals_one_process)


def test_all_workers_stop_after_the_same_step():
    run_ranks(3, stops_together)


def test_evaluation():
    run_ranks(2, evaluates_on_worker_0)


def test_errors():
    run_ranks(3, refuses)


@pytest.mark.parametrize(
    ("variables", "size"),
    [
        ({}, 1),
        ({"PMI_SIZE": "3"}, 3),
        ({"OMPI_COMM_WORLD_SIZE": "5"}, 5),
        ({"SLURM_STEP_NUM_TASKS": "7"}, 7),
        ({"SLURM_NTASKS": "7"}, 1),  # set in a batch script, whose commands are single processes
        ({"PMI_SIZE": ""}, 1),
    ],
)
def test_size_of_a_launched_run(variables, size, monkeypatch):
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert launched_size() == size


def test_recipes_say_why_they_need_one_process():
    reasons = {name: load_recipe(name).one_process for name in RECIPES}
    assert {name for name, reason in reasons.items() if reason} == {
        "captions", "clip", "detr", "dino", "nonlocal", "speech", "vatt",
    }  # fmt: skip
