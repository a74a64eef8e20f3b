"""DistributedDataParallel: the gradients of every rank are those of one process."""

import numpy as np
import pytest
from distributed.ranks import run_ranks
from marks import slow_except

import minitorch_attn as mt
from minitorch_attn import distributed as dist
from minitorch_attn.errors import ArgumentError, GraphError, ShapeError
from minitorch_attn.models import GPT, VisionTransformer
from minitorch_attn.models.swin import Swin
from minitorch_attn.nn.parallel import DistributedDataParallel

BATCH, TOKENS, VOCABULARY = 12, 5, 11  # 12 rows are divisible by 1, 2, 3 and 4 ranks
RANKS = [1, 2, 3, 4]


def gpt(seed=1):
    mt.manual_seed(seed)
    model = GPT(VOCABULARY, TOKENS, embed_dim=12, num_heads=3, num_layers=2, dropout=0.3)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, TOKENS))
    return model.double(), mt.tensor(ids)


def vit(seed=1):
    mt.manual_seed(seed)
    sizes = dict(image_size=6, patch_size=3, num_classes=5, embed_dim=12, num_layers=2)
    rates = dict(dropout=0.2, attention_dropout=0.3, drop_path=0.4)
    model = VisionTransformer(**sizes, num_heads=3, mlp_dim=7, in_channels=2, **rates)
    return model.double(), _normal(BATCH, 2, 6, 6)


def swin(seed=1):
    mt.manual_seed(seed)
    sizes = dict(image_size=8, patch_size=2, in_channels=2, num_classes=5, embed_dim=6)
    rates = dict(dropout=0.2, attention_dropout=0.3, drop_path=0.4)
    model = Swin(**sizes, depths=(2,), num_heads=(3,), window_size=2, **rates)
    return model.double(), _normal(BATCH, 2, 8, 8)


def _normal(*shape):
    return mt.tensor(np.random.default_rng(7).normal(size=shape))


def loss_of(y):
    """Return a mean over rows, to which every output contributes differently."""
    weights = np.random.default_rng(3).normal(size=y.shape[1:])
    return (y * mt.tensor(weights)).sin().mean()


def mine(x):
    """Return this rank's rows of a batch."""
    rows = len(x) // dist.get_world_size()
    return x[rows * dist.get_rank() : rows * (dist.get_rank() + 1)]


def train(model, x, steps, optimizer=None):
    """Train, and return the gradients of each step."""
    optimizer = optimizer or mt.optim.AdamW(model.parameters(), lr=0.01)
    mt.manual_seed(8)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model(x)).backward()
        found.append([p.grad.numpy().copy() for p in model.parameters()])
        optimizer.step()
    return found


def check_equal(got, expected, atol=1e-14):
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=atol)


# Functions that every rank calls


def equals_one_process():
    dist.init_process_group("mpi")
    for build, bucket_cap_mb in ((gpt, 1e-6), (vit, 2e-3), (swin, 25)):
        alone, x = build()
        expected = train(alone, x, 2)
        model, _ = build(seed=1 + dist.get_rank())  # the weights of rank 0 count
        model = DistributedDataParallel(model, bucket_cap_mb=bucket_cap_mb)
        got = train(model, mine(x), 2)
        check_equal(got[0], expected[0])
        check_equal(got[1], expected[1], atol=1e-10)  # AdamW divides by |gradient| + 1e-8
        gathered = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, [p.sum().item() for p in model.parameters()])
        assert gathered == [gathered[0]] * len(gathered)  # the ranks are equal bit for bit


def sends_while_it_differentiates():
    """Each bucket is sent before the layers below it have been differentiated."""
    dist.init_process_group("mpi")
    mt.manual_seed(1)
    model = mt.nn.Sequential(*[mt.nn.Linear(7, 7) for _ in range(5)])
    model = DistributedDataParallel(model, bucket_cap_mb=1e-6)  # a bucket for each parameter
    events = []
    for number, layer in enumerate(model.module):
        layer.register_full_backward_hook(lambda *_, n=number: events.append(n))
    sent = model._reducer.buckets
    for index, bucket in enumerate(sent):
        put = bucket.put
        bucket.put = lambda i, grad, put=put, n=index: (put(i, grad), events.append(f"bucket {n}"))
    model(mt.ones(3, 7)).sum().backward()
    firsts = [events.index(f"bucket {n}") for n in range(10)]
    assert firsts == sorted(firsts)
    for layer in range(1, 5):  # the buckets of layer 4 are 0 and 1
        assert firsts[2 * (4 - layer) + 1] < events.index(layer - 1), events


def adds_up_without_messages():
    dist.init_process_group("mpi")
    alone, x = gpt()
    alone.eval()
    (loss_of(alone(x)) + loss_of(alone(x.flip(0)))).backward()
    model = DistributedDataParallel(gpt()[0]).eval()
    with dist.count_messages() as traffic, model.no_sync():
        loss_of(model(mine(x))).backward()
    assert traffic.bytes == 0
    local = next(model.parameters()).grad.numpy().copy()
    loss_of(model(mine(x.flip(0)))).backward()
    check_equal([p.grad.numpy() for p in model.parameters()],
                [p.grad.numpy() for p in alone.parameters()])  # fmt: skip
    assert np.abs(local).max() > 0


class Branches(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = mt.nn.Linear(3, 2).double(), mt.nn.Linear(3, 2).double()
        self.third = mt.nn.Linear(3, 2).double()

    def forward(self, x, branch):
        return (self.first, self.second)[branch](x)


def names_unused_parameters():
    dist.init_process_group("mpi")
    x = _normal(4, 3)
    model = DistributedDataParallel(Branches())
    with pytest.raises(GraphError, match="find_unused_parameters=True") as error:
        model(x, 0)
    assert "second.weight" in str(error.value) and "first.weight" not in str(error.value)
    both = DistributedDataParallel(Branches(), find_unused_parameters=True)
    for _ in range(2):
        both.zero_grad()
        branch = dist.get_rank() % 2  # each rank uses another branch
        both(x, branch).sum().backward()
        expected = x.sum(0).numpy() / dist.get_world_size()
        ranks = dist.get_world_size()
        for used, layer in (
            ((ranks + 1) // 2, both.module.first),
            (ranks // 2, both.module.second),
        ):
            if used:
                check_equal(layer.weight.grad.numpy(), [used * expected] * 2)
            else:
                assert layer.weight.grad is None
        assert both.module.third.weight.grad is None  # no rank has used it


def names_parameters_that_the_loss_missed():
    dist.init_process_group("mpi")

    class Two(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = mt.nn.Linear(3, 2), mt.nn.Linear(3, 2)

        def forward(self, x):
            return self.first(x), self.second(x)

    model = DistributedDataParallel(Two())
    model(mt.ones(4, 3))[0].sum().backward()
    with pytest.raises(GraphError, match="did not reach") as error:
        model(mt.ones(4, 3))
    assert "second.weight" in str(error.value) and "first.weight" not in str(error.value)


def tied_weights_and_two_calls():
    """A parameter that is used twice, in one call or in two, is sent once, with its whole sum."""
    dist.init_process_group("mpi")

    class Tied(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.other = mt.nn.Linear(3, 3).double(), mt.nn.Linear(3, 3).double()

        def forward(self, x):
            return self.inner(self.other(self.inner(x)).tanh())

    mt.manual_seed(1)
    alone, x = Tied(), _normal(12, 3)
    (loss_of(alone(x)) + loss_of(alone(x.exp()))).backward()
    model = DistributedDataParallel(Tied(), bucket_cap_mb=1e-6)
    model.module.load_state_dict(alone.state_dict())
    for _ in range(2):
        model.zero_grad()
        (loss_of(model(mine(x))) + loss_of(model(mine(x.exp())))).backward()
        check_equal([p.grad.numpy() for p in model.parameters()],
                    [p.grad.numpy() for p in alone.parameters()])  # fmt: skip


def buffers_are_those_of_rank_0():
    dist.init_process_group("mpi")
    mt.manual_seed(1)
    model = mt.nn.Sequential(mt.nn.Linear(3, 5), mt.nn.BatchNorm1d(5)).double()
    x = _normal(12, 3)
    alone = mt.nn.Sequential(mt.nn.Linear(3, 5), mt.nn.BatchNorm1d(5)).double()
    alone.load_state_dict(model.state_dict())
    model[1].running_mean += dist.get_rank()
    shared = DistributedDataParallel(model)
    np.testing.assert_array_equal(model[1].running_mean.numpy(), np.zeros(5))
    for _ in range(2):
        alone(x[: 12 // dist.get_world_size()])  # rank 0 trains on the first rows
        shared(mine(x)).sum().backward()
    own = model[1].running_mean.numpy().copy()
    assert dist.get_rank() == 0 or np.abs(own - alone[1].running_mean.numpy()).max() > 1e-3
    shared(mine(x))  # starts with the buffers of rank 0
    dist.broadcast(alone[1].running_var, src=0)
    shared.eval()
    before = model[1].running_mean.numpy().copy()
    shared(mine(x))
    np.testing.assert_array_equal(model[1].running_mean.numpy(), before)
    names = {"module." + name for name in alone.state_dict()}
    assert set(shared.state_dict()) == names


def different_modules():
    dist.init_process_group("mpi")
    width = 3 if dist.get_rank() == 0 else 5
    model = mt.nn.Linear(2, width)
    if dist.get_rank() == 0:
        DistributedDataParallel(model)
        return
    with pytest.raises(ArgumentError, match="different modules") as error:
        DistributedDataParallel(model)
    assert "[5, 2]" in str(error.value) and "[3, 2]" in str(error.value)


def invalid_arguments():
    dist.init_process_group("mpi")
    linear = mt.nn.Linear(3, 2)
    for wrong in (
        dict(dim=1), dict(gradient_as_bucket_view=True), dict(bucket_cap_mb=0),
        dict(bucket_cap_mb="25"),
    ):  # fmt: skip
        with pytest.raises((ArgumentError, ShapeError), match="DistributedDataParallel: "):
            DistributedDataParallel(linear, **wrong)
    with pytest.raises(ArgumentError, match="must be a Module"):
        DistributedDataParallel(lambda x: x)
    with pytest.raises(ArgumentError, match="no parameter requires grad"):
        DistributedDataParallel(mt.nn.Linear(3, 2).requires_grad_(False))
    for layer in (
        mt.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1),
        mt.nn.MultiheadAttention(4, 2, dropout=0.1),
    ):
        with pytest.raises(ShapeError, match="batch_first=False"):
            DistributedDataParallel(layer)
    DistributedDataParallel(mt.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0))


# Tests


@pytest.mark.parametrize("ranks", slow_except((2,), RANKS))
def test_equals_one_process(ranks):
    run_ranks(ranks, equals_one_process)


@pytest.mark.parametrize("ranks", [1, 2])
def test_sends_while_it_differentiates(ranks):
    run_ranks(ranks, sends_while_it_differentiates)


@pytest.mark.parametrize("ranks", [1, 3])
def test_no_sync(ranks):
    run_ranks(ranks, adds_up_without_messages)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_unused_parameters(ranks):
    run_ranks(ranks, names_unused_parameters)
    run_ranks(ranks, names_parameters_that_the_loss_missed)


@pytest.mark.parametrize("ranks", [1, 4])
def test_parameters_that_are_used_twice(ranks):
    run_ranks(ranks, tied_weights_and_two_calls)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_buffers(ranks):
    run_ranks(ranks, buffers_are_those_of_rank_0)


def test_errors():
    run_ranks(2, different_modules, last=True)
    run_ranks(2, invalid_arguments)
