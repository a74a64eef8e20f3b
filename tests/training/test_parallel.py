"""A batch split over threads or processes gives the gradient of the whole batch."""

import threading

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.backend.blas import blas_threads, limited_blas_threads
from minitorch_attn.errors import ArgumentError, GraphError
from minitorch_attn.models import GPT
from minitorch_attn.training import ProcessSplit, ThreadSplit

BATCH, TOKENS, VOCABULARY = 7, 5, 11


@pytest.fixture(params=[ThreadSplit, ProcessSplit])
def split_class(request):
    return request.param


def gpt(device, dropout=0.0):
    mt.manual_seed(1)
    model = GPT(VOCABULARY, TOKENS, embed_dim=12, num_heads=3, num_layers=2, dropout=dropout)
    return model.double().to(device)


def batch_of(device, rows=BATCH):
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (rows, TOKENS + 1))
    return mt.tensor(ids[:, :-1], device=device), mt.tensor(ids[:, 1:], device=device)


def loss_function(model, batch):
    ids, targets = batch
    logits = model(ids)
    return mt.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))


def gradients(model):
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_equals_the_whole_batch(threads, device, split_class):
    model, batch = gpt(device), batch_of(device)
    loss = loss_function(model, batch)
    loss.backward()
    expected = gradients(model)
    model.zero_grad()
    split = split_class(model, loss_function, threads)
    for _ in range(2):  # copies are used again
        got = split(batch)
        assert got.item() == pytest.approx(loss.item(), abs=1e-14) and not got.requires_grad
        for name, grad in gradients(model).items():
            np.testing.assert_allclose(grad, expected[name], atol=1e-15, err_msg=name)
        model.zero_grad()


def test_gradients_are_added_to_those_that_are_there(device, split_class):
    model, split_model, batch = gpt(device), gpt(device), batch_of(device)
    for _ in range(2):
        loss_function(model, batch).backward()
    split = split_class(split_model, loss_function, 2)
    for _ in range(2):
        split(batch)
    for name, grad in gradients(model).items():
        np.testing.assert_allclose(gradients(split_model)[name], grad, atol=1e-15)


def test_means_over_unequal_counts(device, split_class):
    """Padding lies in one part only: each part counts as many targets as it has."""

    def masked_loss(model, batch):
        ids, targets = batch
        logits = model(ids).reshape(-1, VOCABULARY)
        return mt.nn.functional.cross_entropy(logits, targets.reshape(-1), ignore_index=-100)

    model, (ids, targets) = gpt(device), batch_of(device)
    targets[:3, 1:] = -100
    masked_loss(model, (ids, targets)).backward()
    expected = gradients(model)
    model.zero_grad()
    by_rows = split_class(model, masked_loss, 2)
    by_rows((ids, targets))
    wrong = gradients(model)
    model.zero_grad()
    count = split_class(model, masked_loss, 2, count=lambda batch: (batch[1] != -100).sum().item())
    count((ids, targets))
    for name, grad in gradients(model).items():
        np.testing.assert_allclose(grad, expected[name], atol=1e-15)
    assert max(np.abs(wrong[n] - expected[n]).max() for n in expected) > 1e-4


def test_follows_the_optimiser(device, split_class):
    """The copies see every step, also the first, which moves the parameters' memory."""
    model, alone, batch = gpt(device), gpt(device), batch_of(device)
    split = split_class(model, loss_function, 3)
    pairs = [(model, split), (alone, split_class(alone, loss_function, 1))]
    for trained, backward in pairs:
        optimizer = mt.optim.AdamW(trained.parameters(), lr=0.01)
        for _ in range(4):
            optimizer.zero_grad()
            backward(batch)
            optimizer.step()
    for a, b in zip(model.parameters(), alone.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-11)


def test_dropout_depends_on_the_seed_alone(device, split_class):
    results = []
    for _ in range(3):
        model = gpt(device, dropout=0.3).train()
        split = split_class(model, loss_function, 3)
        mt.manual_seed(5)
        losses = [split(batch_of(device)).item() for _ in range(2)]
        results.append((losses, gradients(model)))
    for losses, grads in results[1:]:
        assert losses == results[0][0]
        for name, grad in grads.items():
            np.testing.assert_allclose(grad, results[0][1][name], atol=1e-15)
    assert losses[0] != losses[1]  # the next step has other masks


def test_parts_have_different_dropout_masks(device):
    masks = []

    def loss(model, x):
        y = mt.nn.functional.dropout(x, 0.5)
        masks.append(y.numpy())
        return (y * model.weight).mean()

    mt.manual_seed(0)
    ThreadSplit(mt.nn.Linear(64, 1).to(device), loss, 2)(mt.ones(2, 64, device=device))
    assert not np.array_equal(masks[0], masks[1])


def test_train_and_eval_reach_the_copies(device, split_class):
    model, batch = gpt(device, dropout=0.5), batch_of(device)
    split = split_class(model, loss_function, 2)
    model.train()
    split(batch)
    model.eval()
    expected = loss_function(model, batch).item()
    assert split(batch).item() == pytest.approx(expected, abs=1e-14)


def test_a_part_of_the_model_may_be_in_eval_mode(device, split_class):
    """Frozen dropout is off in the copies as well."""
    model = mt.nn.Sequential(mt.nn.Dropout(0.5), mt.nn.Linear(64, 1)).double().to(device)
    split = split_class(model, lambda model, x: model(x).mean(), 2)
    x = mt.ones(2, 64, device=device).double()
    split(x)  # the copies are made while everything trains
    model[0].eval()
    expected = model(x).mean().item()
    assert split(x).item() == pytest.approx(expected, abs=1e-14)


def test_what_needs_the_whole_batch_is_refused(device, split_class):
    with pytest.raises(ArgumentError, match="1: BatchNorm1d"):
        split_class(mt.nn.Sequential(mt.nn.Linear(3, 3), mt.nn.BatchNorm1d(3)), loss_function, 2)
    noisy = split_class(
        mt.nn.Linear(3, 1).to(device),
        lambda model, x: (model(x) + mt.randn(1).item()).mean(),
        2,
    )
    with pytest.raises(GraphError, match="threads=1"):
        noisy(mt.ones(4, 3, device=device))
    with pytest.raises(ArgumentError, match="(threads|processes) must be at least 1"):
        split_class(mt.nn.Linear(3, 1), loss_function, 0)


@pytest.mark.parametrize("fails_in", ["the first part", "another part"])
def test_an_error_in_any_thread_is_raised_and_the_setting_is_put_back(fails_in, device):
    before = blas_threads()

    def loss(model, x):
        if (threading.current_thread() is threading.main_thread()) == (
            fails_in == "the first part"
        ):
            raise ValueError(fails_in)
        return model(x).mean()

    split = ThreadSplit(mt.nn.Linear(3, 1).to(device), loss, 2)
    for _ in range(2):
        with pytest.raises(ValueError, match=fails_in):
            split(mt.ones(4, 3, device=device))
        assert blas_threads() == before
    mt.randn(1)  # the host may draw again


def test_blas_threads_are_limited_and_put_back():
    before = blas_threads()
    if before is None:
        pytest.skip("the BLAS of this NumPy is not known")
    with limited_blas_threads(1):
        assert blas_threads() == 1
        with limited_blas_threads(1):
            assert blas_threads() == 1
        assert blas_threads() == 1
    assert blas_threads() == before
