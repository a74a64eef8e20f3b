"""Dataset, DataLoader and samplers: order, batches, what is refused."""

from collections import namedtuple

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import MiniTorchError, ShapeError
from minitorch_attn.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    EpochSampler,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
)


class Numbers(Dataset):
    def __init__(self, count):
        self.count = count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        return index

    def __len__(self):
        return self.count


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(5))


def batches(*args, **kwargs):
    return [batch.tolist() for batch in DataLoader(*args, **kwargs)]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_in_order_and_their_number(count, batch_size, drop_last):
    loader = DataLoader(Numbers(count), batch_size, drop_last=drop_last)
    found = [batch.tolist() for batch in loader]
    expected = [list(range(i, min(i + batch_size, count))) for i in range(0, count, batch_size)]
    if drop_last:
        expected = [batch for batch in expected if len(batch) == batch_size]
    assert found == expected and len(loader) == len(expected)


def test_shuffling_visits_every_example_once_in_another_order_in_each_epoch():
    loader = DataLoader(Numbers(20), 20, shuffle=True)
    first, second = ([batch.tolist() for batch in loader][0] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(20)) and first != second


@pytest.mark.parametrize("own", [False, True])
def test_a_seed_repeats_the_order(own):
    def epochs():
        mt.manual_seed(7)
        generator = mt.Generator().manual_seed(7) if own else None
        loader = DataLoader(Numbers(9), 4, shuffle=True, generator=generator)
        return [[batch.tolist() for batch in loader] for _ in range(2)]

    first = epochs()
    if own:
        mt.rand(3)  # does not disturb a loader with its own generator
    assert epochs() == first


def test_samplers():
    assert batches(Numbers(9), 2, sampler=[3, 1, 4]) == [[3, 1], [4]]
    assert batches(Numbers(9), batch_sampler=[[0, 8], [5]]) == [[0, 8], [5]]
    assert sorted(RandomSampler(Numbers(4), num_samples=8)) == [0, 0, 1, 1, 2, 2, 3, 3]
    drawn = list(RandomSampler(Numbers(3), replacement=True, num_samples=50))
    assert set(drawn) == {0, 1, 2} and len(drawn) == 50
    assert len(BatchSampler(range(5), 2, True)) == 2


def test_the_order_of_an_epoch_depends_on_the_seed_and_the_epoch_alone():
    orders = {}
    for seed in (0, 1, -1):
        for epoch in (2, 0, 1):
            sampler = EpochSampler(range(11), seed)
            sampler.set_epoch(epoch)
            orders[seed, epoch] = tuple(sampler)
            mt.rand(3)
            assert tuple(sampler) == orders[seed, epoch]
            sampler.set_epoch(epoch, start=7)
            assert tuple(sampler) == orders[seed, epoch][7:]
    assert len(set(orders.values())) == 9
    assert all(sorted(order) == list(range(11)) for order in orders.values())


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_data_set_of_tensors_makes_the_batches_of_its_examples(count):
    data = TensorDataset(mt.rand(count, 3, dtype=mt.float64), mt.arange(count), mt.ones(count) > 0)
    one_by_one = DataLoader(data, 3, collate_fn=lambda batch: default_collate(batch))
    for batch, expected in zip(DataLoader(data, 3), one_by_one, strict=True):
        assert type(batch) is type(expected)
        for x, y in zip(batch, expected, strict=True):
            assert x.dtype == y.dtype and x.tolist() == y.tolist()


def test_without_a_batch_size_examples_come_one_by_one():
    assert list(DataLoader(Numbers(3), batch_size=None)) == [0, 1, 2]
    (x, y), _ = DataLoader(TensorDataset(mt.eye(2), mt.arange(2)), batch_size=None)
    assert x.tolist() == [1.0, 0.0] and y.item() == 0
    assert len(DataLoader(Numbers(3), batch_size=None)) == 3


def test_an_iterable_data_set():
    assert batches(Stream(), 2) == [[0, 1], [2, 3], [4]]
    assert batches(Stream(), 2, drop_last=True) == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(), None)) == [0, 1, 2, 3, 4]


def test_any_object_with_items_and_a_length_is_a_data_set():
    assert batches([5, 6, 7], 2) == [[5, 6], [7]]
    assert batches(mt.arange(3), 2) == [[0, 1], [2]]


def test_what_a_batch_is_made_of():
    Pair = namedtuple("Pair", "a b")
    batch = default_collate([Pair(1, "x"), Pair(2, "y")])
    assert type(batch) is Pair and batch.a.tolist() == [1, 2] and batch.b == ["x", "y"]
    x = default_collate([{"x": np.ones(3, "float32"), "n": [1, 2.5]}] * 2)
    assert x["x"].shape == (2, 3) and x["x"].dtype == np.float32
    assert [entry.dtype.name for entry in x["n"]] == ["int64", "float64"]
    assert default_collate([True, False]).dtype == np.bool_
    assert default_collate([np.float32(1.0), np.float32(2.0)]).dtype == np.float32
    assert default_collate([mt.ones(2), mt.zeros(2)]).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert batches([(1, 2), (3, 4)], 2, collate_fn=lambda b: mt.tensor(b)) == [[[1, 2], [3, 4]]]


def test_data_sets_of_data_sets():
    both = Numbers(3) + Subset(Numbers(9), [8, 7])
    assert [both[i] for i in range(-5, 5)] == [0, 1, 2, 8, 7, 0, 1, 2, 8, 7]
    assert len(ConcatDataset([both, Numbers(1)])) == 6
    examples = TensorDataset(mt.arange(6).reshape(3, 2), mt.arange(3))
    assert [row.tolist() for row in examples[1]] == [[2, 3], 1]
    assert examples[0:2][0].shape == (2, 2)


@pytest.mark.parametrize(
    ("count", "lengths", "sizes"),
    [
        (10, [7, 3], [7, 3]), (10, [0.8, 0.2], [8, 2]), (7, [0.5, 0.5], [4, 3]), (1, [1], [1]),
        (5, [1 / 3] * 3, [2, 2, 1]), (0, [0, 0], [0, 0]), (3, [3, 0], [3, 0]), (4, [1.0], [4]),
    ],
)  # fmt: skip
def test_random_split(count, lengths, sizes):
    parts = random_split(Numbers(count), lengths, mt.Generator().manual_seed(1))
    assert [len(part) for part in parts] == sizes
    assert sorted(part[i] for part in parts for i in range(len(part))) == list(range(count))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: DataLoader(Numbers(3), num_workers=2), "worker processes are not supported"),
        (lambda: DataLoader(Numbers(3), shuffle=True, sampler=[1]), "shuffle and sampler"),
        (lambda: DataLoader(Numbers(3), 2, batch_sampler=[[1]]), "batch_sampler and batch_size"),
        (lambda: DataLoader(Stream(), shuffle=True), "shuffle with an IterableDataset"),
        (lambda: DataLoader(Numbers(3), None, drop_last=True), "requires a batch_size"),
        (lambda: DataLoader(Numbers(3), 0), "batch_size must be a positive integer"),
        (lambda: DataLoader(Numbers(3), 1.5), "batch_size must be a positive integer"),
        (lambda: TensorDataset(mt.ones(2), mt.ones(3)), "same number of rows"),
        (lambda: TensorDataset(mt.tensor(1.0)), "same number of rows"),
        (lambda: TensorDataset(), "same number of rows"),
        (lambda: random_split(Numbers(3), [1, 1]), "do not add up"),
        (lambda: random_split(Numbers(3), [4, -1]), "must not be negative"),
        (lambda: ConcatDataset([]), "must not be empty"),
        (lambda: ConcatDataset([Numbers(2)])[2], "out of range"),
        (lambda: default_collate([object()]), "collate_fn"),
        (lambda: default_collate([(1, 2), (1,)]), "same number of entries"),
        (lambda: default_collate([mt.ones(2), mt.ones(3)]), "have different shapes"),
        (lambda: RandomSampler(Numbers(3), num_samples=0), "num_samples must be positive"),
    ],
)
def test_what_cannot_be_loaded_is_refused(call, words):
    with pytest.raises(MiniTorchError, match=words):
        call()


def test_a_model_learns_from_a_loader():
    """The loop as people write it."""
    mt.manual_seed(0)
    x = mt.randn(64, 3)
    examples = TensorDataset(x, x @ mt.tensor([1.0, -2.0, 0.5]))
    train, test = random_split(examples, [0.75, 0.25])
    model = mt.nn.Linear(3, 1)
    optimizer = mt.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        for inputs, targets in DataLoader(train, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            mt.nn.functional.mse_loss(model(inputs).squeeze(-1), targets).backward()
            optimizer.step()
    inputs, targets = next(iter(DataLoader(test, batch_size=len(test))))
    assert mt.nn.functional.mse_loss(model(inputs).squeeze(-1), targets).item() < 1e-3


def test_checkpoint_has_pytorchs_signature():
    from minitorch_attn.utils.checkpoint import checkpoint

    x = mt.ones(3, requires_grad=True)
    checkpoint(lambda x: (x * x).sum(), x, use_reentrant=False).backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("convert", [mt.tensor, lambda row: mt.tensor(row).numpy()])
def test_examples_of_different_lengths_are_named_and_can_be_padded(convert):
    rows = [convert([float(i)] * (3 if i < 4 else 5)) for i in range(6)]
    pairs = list(zip(rows, range(6), strict=True))
    with pytest.raises(ShapeError, match="default_collate: the examples.*different shapes") as e:
        list(DataLoader(pairs, batch_size=6))
    assert e.value.got == "(3,) in example 0 of the batch and (5,) in example 4"
    assert "collate_fn=" in e.value.hint and "nn.utils.rnn.pad_sequence" in e.value.hint

    def collate(batch):
        tensors = [mt.as_tensor(row) for row, _ in batch]
        return mt.nn.utils.rnn.pad_sequence(tensors, batch_first=True)

    assert [batch.shape for batch in DataLoader(pairs, 6, collate_fn=collate)] == [(6, 5)]
