"""Pickle and deepcopy: tensors, modules, optimizers and schedules, also in another process."""

import copy
import io
import multiprocessing
import pickle

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import GraphError


def again(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301  (its own pickle)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_a_leaf_keeps_its_values_and_whether_it_requires_grad(shape, requires_grad, device):
    x = mt.rand(shape, device=device, dtype="float64").requires_grad_(requires_grad)
    y = again(x)
    assert (type(y), y.dtype, y.device, y.requires_grad) == (
        mt.Tensor,
        x.dtype,
        x.device,
        requires_grad,
    )
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    assert y.is_leaf and not np.shares_memory(y.numpy(), x.numpy())


def test_a_strided_leaf_and_integers():
    x = mt.arange(12).reshape(3, 4).T[::2]
    assert again(x).tolist() == x.tolist() and again(x).dtype == np.int64


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_a_tensor_that_was_computed_is_refused(copied):
    with pytest.raises(GraphError, match="leaf(.|\n)*detach"):
        copied(mt.ones(2, requires_grad=True) * 2)


def test_a_shallow_copy_shares_the_elements():
    x = mt.ones(2, requires_grad=True)
    y = copy.copy(x)
    assert y.array is x.array and y.requires_grad and (copy.copy(x * 2) * 1).requires_grad
    assert type(copy.copy(nn.Parameter(x))) is nn.Parameter


@pytest.mark.parametrize("copied", [again, copy.deepcopy])
def test_a_module_with_shared_parameters(copied):
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.1), nn.Linear(3, 3)).eval()
    model[2].weight = model[0].weight
    other = copied(model)
    assert other[2].weight is other[0].weight is not model[0].weight
    assert isinstance(other[0].weight, nn.Parameter) and not other.training
    x = mt.rand(2, 3)
    np.testing.assert_array_equal(other(x).numpy(), model(x).numpy())


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("copied", [again, copy.deepcopy])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adafactor"])
def test_training_goes_on_from_the_copy(copied, name):
    model, x = nn.Linear(3, 5), mt.rand(2, 3)
    optimizer = getattr(mt.optim, name)(model.parameters(), lr=0.1)
    schedule = mt.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(2):
        step(model, optimizer, x)
        schedule.step()
    other, other_optimizer, other_schedule = copied((model, optimizer, schedule))
    assert other_schedule.optimizer is other_optimizer
    assert other_optimizer.param_groups[0]["params"][0] is other.weight
    for _ in range(3):
        step(model, optimizer, x)
        schedule.step()
    for _ in range(3):
        step(other, other_optimizer, x)
        other_schedule.step()
    np.testing.assert_array_equal(other.weight.numpy(), model.weight.numpy())
    assert other_optimizer.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def squared(x):
    return (x * x).detach()


@pytest.mark.serial
def test_another_process_receives_and_returns_tensors():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (y,) = pool.map(squared, [mt.tensor([2.0, 3.0], requires_grad=True)])
    assert y.tolist() == [4.0, 9.0]


def test_nothing_of_the_library_loads_a_pickle():
    with pytest.raises(mt.errors.MiniTorchError):
        mt.load(io.BytesIO(pickle.dumps({"a": mt.ones(2)})))
