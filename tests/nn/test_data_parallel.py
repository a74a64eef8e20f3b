"""DataParallel gives the results and gradients of the module on the whole batch."""

import threading

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.backend import threads as backend_threads
from minitorch_attn.backend.blas import blas_threads
from minitorch_attn.errors import ArgumentError, GraphError, ShapeError
from minitorch_attn.models import GPT, VisionTransformer
from minitorch_attn.nn.batch_parts import join_batch, split_batch

F = nn.functional
IMAGES = dict(
    image_size=8, patch_size=2, in_channels=1, embed_dim=12, num_heads=3, num_layers=2,
    num_classes=5,
)  # fmt: skip


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    """Split even on a machine with one core."""
    monkeypatch.setattr(backend_threads, "blas_threads", lambda: 2)


class Threads(nn.Module):
    """Layer that notes the thread of each call and the size of its batch."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, x):
        self.calls.append((threading.current_thread().name, len(x)))
        return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [None, 1, 2, 3, 11])
@pytest.mark.parametrize("batch", [0, 1, 2, 3, 7])
def test_equals_the_whole_batch(batch, threads, dtype, device):
    mt.manual_seed(0)
    model = VisionTransformer(**IMAGES).to(dtype).to(device)
    images = mt.randn(batch, 1, 8, 8, dtype=dtype, device=device).requires_grad_()
    cotangent = mt.randn(batch, 5, dtype=dtype, device=device)
    tensors = [*model.parameters(), images]
    found = []
    parallel = nn.DataParallel(model, threads=threads)
    for called in (model, parallel, parallel):  # the first call also checks the batch axis
        logits = called(images)
        grads = mt.autograd.grad((logits * cotangent).sum(), tensors)
        found.append([logits.detach().numpy(), *(g.numpy() for g in grads)])
    for again in found[1:]:
        for got, expected in zip(again, found[0], strict=True):
            scale = max(1.0, np.abs(expected).max(initial=0))
            atol = scale * (1e-12 if dtype == "float64" else 3e-5)
            np.testing.assert_allclose(got, expected, atol=atol)


@pytest.mark.parametrize("strided", [False, True])
def test_the_plain_loop_trains_as_without_it(strided, device):
    ids = np.random.default_rng(0).integers(0, 11, (7, 12))
    ids = mt.tensor(ids[:, ::2] if strided else ids[:, :6], device=device)
    losses = []
    for wrapped in (False, True):
        mt.manual_seed(1)
        model = GPT(11, 5, embed_dim=12, num_heads=3, num_layers=2).double().to(device)
        optimizer = mt.optim.AdamW(model.parameters(), lr=0.01)
        called = nn.DataParallel(model) if wrapped else model
        for _ in range(4):
            loss = F.cross_entropy(called(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], abs=1e-11)


def test_the_parts_run_on_two_threads():
    layer = Threads()
    model = nn.DataParallel(nn.Sequential(layer, nn.Linear(3, 2)))
    model(mt.ones(7, 3))
    layer.calls.clear()  # the first call compares the last example alone with the whole batch
    model(mt.ones(7, 3))
    sizes = sorted(size for _, size in layer.calls)
    assert sizes == [3, 4] and len({name for name, _ in layer.calls}) == 2


def test_no_graph_without_grad(make):
    model = nn.DataParallel(nn.Linear(3, 2).double())
    before = blas_threads()
    with mt.no_grad():
        y = model(make(5, 3).to("cpu"))
    assert not y.requires_grad and mt.is_grad_enabled() and blas_threads() == before


def test_parameters_without_a_gradient_stay_without(make):
    model = nn.DataParallel(nn.ModuleDict({"used": nn.Linear(3, 2), "unused": nn.Linear(3, 2)}))
    model.module.forward = lambda x: model.module["used"](x)
    model.module["used"].bias.requires_grad_(False)
    model(mt.ones(5, 3)).sum().backward()
    grads = {name: p.grad is not None for name, p in model.named_parameters()}
    assert grads == {
        "module.used.weight": True, "module.used.bias": False,
        "module.unused.weight": False, "module.unused.bias": False,
    }  # fmt: skip


def test_changes_of_the_module_reach_the_parts():
    model = nn.DataParallel(nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 1)))
    x = mt.ones(5, 64)
    model(x)
    model.module[0].eval()
    np.testing.assert_allclose(model(x).detach().numpy(), model.module(x).detach().numpy(), 1e-5)
    model.module[1] = nn.Linear(64, 2)
    assert model(x).shape == (5, 2)


def test_dropout_depends_on_the_seed_alone():
    model = nn.DataParallel(nn.Dropout(0.5))
    found = []
    for _ in range(3):
        mt.manual_seed(5)
        found.append([model(mt.ones(6, 31)).numpy() for _ in range(2)])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert not np.array_equal(found[0][0], found[0][1])  # other masks in the next step
    assert not np.array_equal(found[0][1][:3], found[0][1][3:])  # and in the other part


def test_results_in_tuples_and_dicts(make):
    class Both(nn.Module):
        def forward(self, pair, scale=None):
            x, y = pair
            return {"sum": x.sum(1), "both": (x * scale, [y, None])}

    x, y = make(5, 3).to("cpu"), make(5, 2).to("cpu")
    got = nn.DataParallel(Both())((x, y), scale=2.0)
    np.testing.assert_array_equal(got["both"][0].numpy(), 2 * x.numpy())
    np.testing.assert_array_equal(got["both"][1][0].numpy(), y.numpy())
    assert got["both"][1][1] is None
    np.testing.assert_allclose(got["sum"].numpy(), x.numpy().sum(1))


@pytest.mark.parametrize("batch", [2, 3, 4, 7])
def test_a_result_without_the_batch_axis_is_refused(batch):
    """A mean over the batch and a table for all examples cannot be joined from parts."""

    class WithTable(nn.Module):
        def forward(self, x):
            return x, mt.ones(4, 3)

    class Loss(nn.Module):
        def forward(self, x):
            return x.mean()

    for module in (WithTable(), Loss()):
        with pytest.raises(ShapeError, match="of the module must be the batch"):
            nn.DataParallel(module)(mt.ones(batch, 3))


def test_the_batch_may_be_on_another_axis(make):
    gru = nn.GRU(3, 5).double()
    x = make(4, 7, 3).to("cpu")  # (token, batch, input)
    model = nn.DataParallel(gru, dim=1)
    for _ in range(2):
        y, last = model(x)
        np.testing.assert_allclose(y.detach().numpy(), gru(x)[0].detach().numpy(), atol=1e-14)
        np.testing.assert_allclose(last.detach().numpy(), gru(x)[1].detach().numpy(), atol=1e-14)
    with pytest.raises(ArgumentError, match="use dim=1 for batch_first=False"):
        nn.DataParallel(gru)
    with pytest.raises(ArgumentError, match="batch_first=True"):
        nn.DataParallel(nn.GRU(3, 5, batch_first=True), dim=1)


class Mixing(nn.Module):
    """Subtract the mean over the batch."""

    def forward(self, x):
        return x - x.mean(0)


class TokensFirst(nn.Module):
    """A layer with the tokens on the first axis inside a module with the batch on the first."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(6, 2, 5, dropout=0.0)

    def forward(self, x):
        return self.layer(x.transpose(0, 1)).transpose(0, 1)


@pytest.mark.parametrize("batch", [2, 3, 7])
def test_examples_that_depend_on_each_other_are_refused(batch):
    x = mt.randn(batch, 4, 6)
    for module in (Mixing(), nn.Sequential(TokensFirst().layer), nn.Sequential(nn.Softmax(0))):
        with pytest.raises(ArgumentError, match="depends on the other examples"):
            nn.DataParallel(module)(x)
    module = TokensFirst()
    got, expected = nn.DataParallel(module)(x), module(x)
    np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), atol=1e-5)


def test_the_state_of_a_recurrent_layer_has_its_batch_elsewhere():
    """The final state of `batch_first=True` is (layer, batch, hidden) all the same."""
    model = nn.DataParallel(nn.GRU(3, 5, batch_first=True))
    with pytest.raises(ShapeError, match="of the module must be the batch"):
        model(mt.ones(7, 4, 3))


@pytest.mark.parametrize("seen_by", ["forward hook", "weight hook", "recording", "checkpoint"])
def test_who_watches_sees_the_whole_batch(seen_by, make):
    layer = Threads()
    attention = nn.Attention(6, 2).double()
    model = nn.DataParallel(nn.Sequential(attention, layer))
    x = make(5, 4, 6).to("cpu").requires_grad_()
    if seen_by == "forward hook":
        layer.register_forward_hook(lambda *_: None)
        model(x)
    elif seen_by == "weight hook":
        with nn.collect_attention(model) as maps:
            model(x)
        assert [weights.shape[0] for _, weights in maps] == [5]
    elif seen_by == "recording":
        with mt.autograd.op_log():
            model(x)
    else:
        mt.utils.checkpoint.checkpoint(model, x).sum().backward()
    assert [size for _, size in layer.calls] in ([5], [5, 5])  # twice with a checkpoint


def test_layers_that_change_their_parameters_see_the_whole_batch():
    model = nn.DataParallel(nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 3)))
    assert model(mt.ones(5, 7)).shape == (5, 3)
    table = nn.Embedding(11, 3, max_norm=1.0)
    ids = mt.tensor([1, 2, 3])
    expected = F.embedding(ids, table.weight.detach().clone(), max_norm=1.0)
    got = nn.DataParallel(table)(ids)
    np.testing.assert_array_equal(got.detach().numpy(), expected.numpy())


def test_what_needs_the_whole_batch_is_refused():
    model = nn.DataParallel(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    with pytest.raises(ArgumentError, match="1: BatchNorm1d"):
        model(mt.ones(4, 3))
    assert model.eval()(mt.ones(4, 3)).shape == (4, 3)
    with pytest.raises(ArgumentError, match="0: BatchNorm1d"):
        nn.DataParallel(nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False))).eval()(
            mt.ones(4, 3)
        )
    assert nn.DataParallel(nn.InstanceNorm1d(3))(mt.ones(4, 3, 5)).shape == (4, 3, 5)

    class Noisy(nn.Module):
        def forward(self, x):
            return x + mt.randn(1).item()

    with pytest.raises(GraphError, match="threads=1"):
        nn.DataParallel(Noisy())(mt.ones(4, 3))


@pytest.mark.parametrize("wrong", [{}, {"x": mt.ones(5, 3)}])
def test_arguments_that_the_module_does_not_take(wrong):
    with pytest.raises(ArgumentError, match="Linear.forward does not take these arguments"):
        nn.DataParallel(nn.Linear(3, 2))(**wrong)


def test_arguments():
    with pytest.raises(ArgumentError, match="module must be a Module"):
        nn.DataParallel(len)
    for threads in (0, -1, 1.5):
        with pytest.raises(ArgumentError, match="threads must be at least 1"):
            nn.DataParallel(nn.Linear(3, 2), threads=threads)
    for dim in (-1, None):
        with pytest.raises(ArgumentError, match="dim must be a non-negative integer"):
            nn.DataParallel(nn.Linear(3, 2), dim=dim)
    with pytest.raises(ShapeError, match=r"sizes \[2, 5\]"):
        nn.DataParallel(nn.Bilinear(3, 3, 2))(mt.ones(5, 3), mt.ones(2, 3))
    assert list(nn.DataParallel(nn.Linear(3, 2)).state_dict()) == ["module.weight", "module.bias"]


def test_an_error_in_a_part_comes_out():
    class Broken(nn.Module):
        def forward(self, x):
            if len(x) == 2:
                raise ValueError("the second part")
            return x

    with pytest.raises(ValueError, match="the second part"):
        nn.DataParallel(Broken())(mt.ones(5, 3))
    mt.randn(1)  # the host may draw again


def test_parts_of_a_batch(device):
    x = mt.tensor(np.arange(10).reshape(5, 2), device=device)
    each, shared = mt.masks.padding([1, 2, 2, 1, 2], device=device), mt.masks.causal(2)
    parts = split_batch({"x": x, "pair": (x, "text"), "each": each, "shared": shared}, 2)
    assert [part["x"].shape for part in parts] == [(3, 2), (2, 2)]
    np.testing.assert_array_equal(parts[1]["pair"][0].numpy(), x.numpy()[3:])
    assert parts[1]["pair"][1] == "text" and parts[0]["shared"] is shared
    np.testing.assert_array_equal(parts[1]["each"].attend.numpy(), each.attend.numpy()[3:])
    assert len(split_batch(x[:1], 4)) == 1 and len(split_batch(x[:0], 4)) == 1
    temperature = mt.tensor(2.0)
    assert split_batch((x, temperature, (), {}), 2)[1][1:] == (temperature, (), {})
    with pytest.raises(ShapeError, match=r"sizes \[2, 5\]"):
        split_batch((x, x[:2]), 2)
    with pytest.raises(ShapeError, match="no tensor"):
        split_batch(["text"], 2)
    with pytest.raises(ArgumentError, match="cannot be joined"):
        join_batch([3, 3])
