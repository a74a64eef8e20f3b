"""FeedForward: when it runs as one operation, and when layer by layer."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.nn.activation import fused_name

EMBED, HIDDEN = 3, 7


def operations(module, x):
    with mt.autograd.op_log() as steps:
        module(x)
    return [step.op for step in steps]


def made(device, activation="gelu", **settings):
    layer = nn.FeedForward(EMBED, HIDDEN, activation, device=device, **settings)
    return layer, mt.randn(2, 5, EMBED, device=device)


class Plain(nn.Module):
    """A layer of one's own around another, so that nobody knows it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


def name_of(activation):
    """The same test name in every process; a function's own text holds its address."""
    return activation.__name__ if hasattr(activation, "__name__") else str(activation)


FUSED = ["gelu", "gelu_tanh", "relu", "silu", nn.GELU(), nn.GELU("tanh"), nn.ReLU(), nn.SiLU(),
         mt.relu, mt.ops.gelu, mt.ops.silu]  # fmt: skip


@pytest.mark.parametrize("activation", FUSED, ids=name_of)
def test_one_operation_with_the_values_of_the_layers(activation, device):
    layer, x = made(device, activation)
    assert operations(layer, x) == ["FeedForward"]
    expected = layer.linear2(layer.activation(layer.linear1(x)))
    np.testing.assert_allclose(layer(x).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "activation", ["tanh", "mish", lambda x: x * 2, nn.LeakyReLU()], ids=name_of
)
def test_other_activations_run_layer_by_layer(activation, device):
    layer, x = made(device, activation)
    found = operations(layer, x)
    assert found[0] == found[-1] == "Linear" and len(found) >= 3
    assert fused_name(layer.activation) is None


def test_dropout_only_where_it_drops_nothing(device):
    layer, x = made(device, dropout=0.5)
    assert "Dropout" in operations(layer, x)
    assert operations(layer.eval(), x) == ["FeedForward"]
    assert operations(made(device, dropout=0.0)[0], x) == ["FeedForward"]


@pytest.mark.parametrize("name", ["linear1", "dropout", "activation", "linear2"])
def test_a_hook_inside_is_called(name, device):
    layer, x = made(device, nn.GELU())
    seen = []
    handle = getattr(layer, name).register_forward_hook(lambda m, args, y: seen.append(y.shape))
    expected = layer(x)
    assert seen == [(2, 5, EMBED if name == "linear2" else HIDDEN)]
    handle.remove()
    assert operations(layer, x) == ["FeedForward"] and len(seen) == 1
    np.testing.assert_allclose(layer(x).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["linear1", "dropout", "linear2"])
def test_a_layer_that_was_replaced_is_used(name, device):
    layer, x = made(device)
    setattr(layer, name, Plain(getattr(layer, name)))
    assert operations(layer, x) == ["Linear", "Gelu", "Linear"]


def test_the_trace_shows_the_layers(device):
    layer, x = made(device)
    with mt.trace() as t:
        layer(x).sum().backward()
    forward = [step for step in t.steps if step.kind == "forward"]
    assert [step.op for step in forward] == ["Linear", "Gelu", "Linear", "Sum"]
    assert [step.module.path for step in forward[:3]] == ["linear1", "", "linear2"]


def test_the_summary_counts_the_layers(device):
    layer, x = made(device)
    rows = {row.name: row.flops for row in nn.Summary(layer, x).rows}
    assert rows["linear1"] == rows["linear2"] == 2 * 10 * EMBED * HIDDEN
    assert rows[""] == 2 * rows["linear1"]


def test_parameters_keep_their_names_and_get_their_gradients(device):
    layer, x = made(device)
    layer(x).sum().backward()
    shapes = {name: p.grad.shape for name, p in layer.named_parameters()}
    assert shapes == {
        "linear1.weight": (HIDDEN, EMBED), "linear1.bias": (HIDDEN,),
        "linear2.weight": (EMBED, HIDDEN), "linear2.bias": (EMBED,),
    }  # fmt: skip


def test_a_wrong_input_is_refused_as_by_a_linear_layer(device):
    layer, _ = made(device)
    with pytest.raises(mt.errors.ShapeError, match="linear"):
        layer(mt.ones(2, EMBED + 1, device=device))
