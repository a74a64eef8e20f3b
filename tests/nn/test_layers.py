"""Linear, Embedding, norms, dropout, activations and feed-forward: values and gradients."""

import inspect
import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module, gradgradcheck
from minitorch_attn.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError


def ready(module, device):
    """In float64 on the device under test, with no parameter at a special value."""
    module = module.double().to(device)
    rng = np.random.default_rng(3)
    for p in module.parameters():
        with mt.no_grad():
            p.add_(mt.tensor(rng.uniform(-0.5, 0.5, p.shape), device=device))
    return module


def host(tensor):
    return tensor.detach().numpy()


@pytest.mark.parametrize("bias", [True, False])
def test_linear(make, device, bias):
    layer, x = ready(nn.Linear(3, 5, bias=bias), device), make(2, 7, 3)
    expected = host(x) @ host(layer.weight).T + (host(layer.bias) if bias else 0)
    np.testing.assert_allclose(host(layer(x)), expected, atol=1e-12)
    assert layer(x[0, 0]).shape == (5,)
    assert gradcheck_module(layer, x)
    assert gradgradcheck(layer, x)


def test_linear_without_inputs():
    assert nn.Linear(0, 3).weight.shape == (3, 0)


@pytest.mark.parametrize("make_layer", [nn.Linear, nn.Embedding])
@pytest.mark.parametrize("size", [-1, 2.0, "3", None])
def test_sizes_that_are_none(make_layer, size):
    with pytest.raises(ArgumentError, match="must be a non-negative integer"):
        make_layer(3, size)


def test_embedding(device):
    table = ready(nn.Embedding(11, 3, padding_idx=2), device)
    ids = mt.tensor([[4, 2, 4], [10, 0, 2]], device=device)
    np.testing.assert_array_equal(host(table(ids)), host(table.weight)[ids.numpy()])
    cotangent = np.random.default_rng(0).normal(size=(2, 3, 3))
    (table(ids) * mt.tensor(cotangent, device=device)).sum().backward()
    expected = np.zeros((11, 3))
    np.add.at(expected, ids.numpy(), cotangent)
    expected[2] = 0
    np.testing.assert_allclose(host(table.weight.grad), expected, atol=1e-12)
    assert gradcheck_module(ready(nn.Embedding(5, 3), device), ids % 5)


def test_embedding_refuses_ids_outside_the_table(device):
    table = nn.Embedding(5, 3).to(device)
    with pytest.raises(IndexRangeError, match="from 0 to 4"):
        host(table(mt.tensor([5], device=device)))  # a device says so at the next reading
    with pytest.raises(ArgumentError, match="padding_idx"):
        nn.Embedding(5, 3, padding_idx=5)


def test_embedding_from_a_table(device):
    values = mt.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    table = nn.Embedding.from_pretrained(values, padding_idx=1)
    assert not table.weight.requires_grad and table.padding_idx == 1
    assert table(mt.tensor([1], device=device)).numpy().tolist() == [[3.0, 4.0]]
    with pytest.raises(ShapeError, match="wrong shape"):
        nn.Embedding(3, 2, _weight=values)
    assert repr(table) == "Embedding(2, 2, padding_idx=1)"


@pytest.mark.parametrize("affine, bias", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("shape", [5, (3, 5)])
def test_layer_norm(make, device, affine, bias, shape):
    layer = ready(nn.LayerNorm(shape, 1e-3, affine, bias), device)
    x = make(2, 3, 5)
    axes = (-1,) if shape == 5 else (-2, -1)
    mean = host(x).mean(axes, keepdims=True)
    variance = ((host(x) - mean) ** 2).mean(axes, keepdims=True)
    expected = (host(x) - mean) / np.sqrt(variance + 1e-3)
    if affine:
        expected = expected * host(layer.weight) + (host(layer.bias) if bias else 0)
    np.testing.assert_allclose(host(layer(x)), expected, atol=1e-12)
    assert len(list(layer.parameters())) == affine + (affine and bias)
    assert gradcheck_module(layer, x)
    assert gradgradcheck(layer, x)


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm(make, device, eps, affine):
    layer, x = ready(nn.RMSNorm(5, eps, affine), device), make(2, 3, 5)
    square = (host(x) ** 2).mean(-1, keepdims=True)
    expected = host(x) / np.sqrt(square + (eps or np.finfo("float64").eps))
    if affine:
        expected = expected * host(layer.weight)
    np.testing.assert_allclose(host(layer(x)), expected, atol=1e-12)
    assert gradcheck_module(layer, x)
    assert gradgradcheck(layer, x)


def test_norms_show_their_settings():
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"
    assert repr(nn.RMSNorm((2, 3))) == "RMSNorm((2, 3), eps=None, elementwise_affine=True)"


def test_dropout(make, device):
    layer, x = nn.Dropout(0.25), mt.ones(100, 100, device=device, requires_grad=True)
    y = layer(x)
    kept = host(y) != 0
    np.testing.assert_allclose(np.unique(host(y)), [0, 1 / 0.75], rtol=1e-6)
    assert abs(kept.mean() - 0.75) < 0.02
    y.sum().backward()
    np.testing.assert_array_equal(host(x.grad) != 0, kept)
    assert (host(layer.eval()(x)) == 1).all()
    assert gradcheck_module(nn.Dropout(0.5), make(3, 5))


def test_dropout_is_equal_on_every_device(device):
    mt.manual_seed(4)
    here = nn.Dropout(0.5)(mt.ones(7, 11, device=device)).numpy()
    mt.manual_seed(4)
    np.testing.assert_array_equal(here, nn.Dropout(0.5)(mt.ones(7, 11)).numpy())


def test_drop_path_leaves_out_whole_samples(make, device):
    y = host(nn.DropPath(0.5)(mt.ones(200, 3, 5, device=device)))
    assert set(np.unique(y)) == {0.0, 2.0}
    assert (y == y[:, :1, :1]).all() and 0.3 < (y[:, 0, 0] == 0).mean() < 0.7
    assert (host(nn.DropPath(0.5, scale_by_keep=False)(mt.ones(50, 3, device=device))) <= 1).all()
    assert (host(nn.DropPath(0.5).eval()(mt.ones(50, 3, device=device))) == 1).all()
    assert gradcheck_module(nn.DropPath(0.5), make(7, 3))


@pytest.mark.parametrize("layer", [nn.Dropout, nn.DropPath])
def test_probabilities_outside_0_to_1_are_refused(layer):
    with pytest.raises(ArgumentError, match="must be between 0 and 1"):
        layer(1.5)


ERF = np.vectorize(math.erf)
ACTIVATIONS = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)),
    (nn.GELU(), lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2),
    (
        nn.GELU("tanh"),
        lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    ),
    (nn.SiLU(), lambda x: x / (1 + np.exp(-x))),
    (nn.Tanh(), np.tanh),
    (nn.Sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
    (nn.ELU(0.7), lambda x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1))),
    (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.Mish(), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (nn.Hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (nn.Softplus(beta=2.0), lambda x: np.log1p(np.exp(2 * x)) / 2),
    (nn.GLU(), lambda x: x[..., :3] / (1 + np.exp(-x[..., 3:]))),
    (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    (nn.CELU(0.7), lambda x: np.where(x > 0, x, 0.7 * (np.exp(x / 0.7) - 1))),
    (
        nn.SELU(),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
    ),
    (nn.Hardsigmoid(), lambda x: np.clip(x + 3, 0, 6) / 6),
    (nn.Hardtanh(-0.9, 1.1), lambda x: np.clip(x, -0.9, 1.1)),
    (nn.LogSigmoid(), lambda x: -np.log1p(np.exp(-x))),
    (nn.Softmin(0), lambda x: np.exp(-x) / np.exp(-x).sum(0)),
    (nn.Softmax(0), lambda x: np.exp(x) / np.exp(x).sum(0)),
    (nn.LogSoftmax(1), lambda x: x - np.log(np.exp(x).sum(1, keepdims=True))),
]


@pytest.mark.parametrize("layer, formula", ACTIVATIONS, ids=lambda v: str(v)[:20])
def test_activations(make, layer, formula):
    x = make(5, 6, low=-2.0, high=2.0)
    np.testing.assert_allclose(host(layer(x)), formula(host(x)), atol=1e-12)
    assert gradcheck_module(layer, x)


INPLACE = [nn.ReLU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Mish, nn.Hardswish, nn.SELU, nn.CELU]


@pytest.mark.parametrize("kind", [*INPLACE, nn.ReLU6, nn.Hardtanh, nn.Hardsigmoid])
def test_activations_in_place(make, kind):
    x = make(5, 7)
    y = x * 1.0
    z = kind(inplace=True)(y)
    assert z is y and repr(kind(inplace=True)).endswith("inplace=True)")
    np.testing.assert_array_equal(host(z), host(kind()(x)))
    z.sum().backward()
    grad, x.grad = x.grad, None
    kind()(x).sum().backward()
    np.testing.assert_array_equal(host(grad), host(x.grad))


def test_activation_by_name(make):
    x = make(5, 6)
    same = [("swish", nn.SiLU()), ("silu", nn.SiLU()), ("relu", nn.ReLU()), ("gelu", nn.GELU())]
    same += [("gelu_tanh", nn.GELU("tanh")), ("gelu_new", nn.GELU("tanh")), ("elu", nn.ELU())]
    same += [("tanh", nn.Tanh()), ("sigmoid", nn.Sigmoid()), ("mish", nn.Mish())]
    same += [("softplus", nn.Softplus()), ("leaky_relu", nn.LeakyReLU())]
    for name, layer in same:
        np.testing.assert_array_equal(host(nn.activation_function(name)(x)), host(layer(x)))
    assert nn.activation_function(abs) is abs
    for unknown in ("geloo", ["relu"], None):
        with pytest.raises(ArgumentError, match="one of relu, gelu"):
            nn.activation_function(unknown)


def test_feed_forward(make, device):
    layer = ready(nn.FeedForward(3, 5, "tanh", dropout=0.3), device).eval()
    x = make(2, 7, 3)
    w1, b1, w2, b2 = (host(p) for p in layer.parameters())
    np.testing.assert_allclose(host(layer(x)), np.tanh(host(x) @ w1.T + b1) @ w2.T + b2, atol=1e-12)
    assert gradcheck_module(layer.train(), x)
    assert nn.FeedForward(3).linear1.out_features == 12


def test_gated_feed_forward(make, device):
    layer, x = ready(nn.GatedFeedForward(3, 5), device), make(2, 7, 3)
    gate, up, down = (host(p) for p in layer.parameters())
    branch = host(x) @ gate.T
    expected = (branch / (1 + np.exp(-branch)) * (host(x) @ up.T)) @ down.T
    np.testing.assert_allclose(host(layer(x)), expected, atol=1e-12)
    assert gradcheck_module(layer, x)
    assert gradgradcheck(layer, x)
    assert list(layer.state_dict()) == ["gate.weight", "up.weight", "down.weight"]


def test_cross_entropy_loss(make, device):
    logits, target = make(5, 7), mt.tensor([0, 6, 3, -100, 3], device=device)
    weight = make(7, requires_grad=False, low=0.5, high=2.0)
    loss = nn.CrossEntropyLoss(weight, label_smoothing=0.1).to(device)
    assert list(loss.state_dict()) == ["weight"]
    expected = nn.functional.cross_entropy(logits, target, weight, label_smoothing=0.1)
    assert loss(logits, target).item() == expected.item()
    assert gradcheck_module(loss, logits, target)
    likelihood = nn.functional.log_softmax(logits, -1)
    plain = nn.CrossEntropyLoss(reduction="sum")(logits, target)
    assert math.isclose(nn.NLLLoss(reduction="sum")(likelihood, target).item(), plain.item())


def test_device_and_dtype_of_a_new_layer(device):
    for layer in (
        nn.Linear(2, 3, device=device, dtype=mt.float64),
        nn.Embedding(5, 3, device=device, dtype=mt.float64),
        nn.LayerNorm(3, device=device, dtype=mt.float64),
        nn.TransformerDecoderLayer(4, 2, 6, device=device, dtype=mt.float64),
    ):
        for p in layer.parameters():
            assert p.dtype == mt.float64 and p.device == mt.ones(1, device=device).device


@pytest.mark.parametrize(("count", "shape"), [(1, (5,)), (1, (2, 3)), (3, (2, 3)), (3, (2, 3, 5))])
def test_prelu(count, shape, make, device):
    layer, x = ready(nn.PReLU(count, init=0.4), device), make(*shape)
    slopes = host(layer.weight).reshape(-1, *[1] * (len(shape) - 2))
    expected = np.where(host(x) > 0, host(x), slopes * host(x))
    np.testing.assert_allclose(host(layer(x)), expected, atol=1e-12)
    assert gradcheck_module(layer, x)
    assert gradgradcheck(layer, x)
    layer.reset_parameters()
    assert (host(layer.weight) == 0.4).all()


@pytest.mark.parametrize("shape", [(3,), (2, 5), (5,)])
def test_prelu_refuses_another_number_of_channels(shape):
    with pytest.raises(ShapeError, match="num_parameters channels"):
        nn.PReLU(3)(mt.zeros(shape))


def test_dropout_of_channels_in_training_only(device):
    for axes in (1, 2, 3):
        layer = getattr(nn, f"Dropout{axes}d")(0.5)
        x = mt.ones(7, 5, *[2] * axes, device=device)
        kept = host(layer(x)).reshape(35, -1)
        assert set(kept.mean(1)) == {0.0, 2.0}
        assert layer.eval()(x) is x


@pytest.mark.parametrize("bias", [True, False])
def test_bilinear(bias, make, device):
    layer, x, y = ready(nn.Bilinear(3, 7, 5, bias=bias), device), make(2, 3), make(2, 7)
    expected = np.einsum("bi,kij,bj->bk", host(x), host(layer.weight), host(y))
    np.testing.assert_allclose(host(layer(x, y)), expected + (host(layer.bias) if bias else 0))
    assert gradcheck_module(layer, x, y)
    assert repr(layer) == f"Bilinear(in1_features=3, in2_features=7, out_features=5, bias={bias})"
    assert abs(host(nn.Bilinear(100, 3, 5).weight)).max() <= 0.1


def test_a_lazy_layer_takes_its_size_from_the_first_input(make, device):
    layer, x = nn.LazyLinear(5).double().to(device), make(2, 3)
    optimizer = mt.optim.SGD(layer.parameters(), lr=1.0)  # before the sizes are known
    weight = layer.weight
    layer(x).sum().backward()
    assert type(layer) is nn.Linear and layer.in_features == 3 and layer.weight is weight
    assert 0 < abs(host(weight)).max() <= 3**-0.5 and weight.device == x.device
    before = host(weight).copy()
    optimizer.step()
    np.testing.assert_allclose(host(weight), before - host(weight.grad))
    assert gradcheck_module(layer, x)


def test_a_lazy_layer_takes_its_size_from_a_state_dict():
    saved = nn.Sequential(nn.Linear(7, 3), nn.Linear(3, 5))
    lazy = nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(5))
    lazy.load_state_dict(saved.state_dict())
    x = mt.rand(2, 7)
    np.testing.assert_array_equal(host(lazy(x)), host(saved(x)))
    alone = nn.LazyLinear(3)
    alone.load_state_dict(saved[0].state_dict())
    assert alone.in_features == 7


@pytest.mark.parametrize("name", [n for n in nn.loss.__all__ if n.endswith("Loss")])
def test_a_loss_called_as_a_function_says_to_create_it(name):
    x = mt.zeros(2, 3)
    with pytest.raises(DTypeError, match=f"{name}: the loss must be created") as caught:
        getattr(nn, name)(x, x)
    assert caught.value.hint == f"nn.{name}()(input, target)"
    assert "reduction" in inspect.signature(getattr(nn, name)).parameters
