"""Initial values: their distribution and order; they are the same on every device."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, ShapeError

init = nn.init
FAN_IN, FAN_OUT = 60, 40


def drawn(function, *args, shape=(FAN_OUT, FAN_IN), **kwargs):
    mt.manual_seed(7)
    tensor = mt.zeros(*shape, requires_grad=True)
    assert function(tensor, *args, **kwargs) is tensor
    return tensor.numpy().astype("float64")


def test_uniform():
    values = drawn(init.uniform_, -3.0, 5.0)
    assert -3 <= values.min() < -2.9 and 4.9 < values.max() < 5
    assert abs(values.mean() - 1) < 0.15


def test_normal():
    values = drawn(init.normal_, 2.0, 0.5)
    assert abs(values.mean() - 2) < 0.05 and abs(values.std() - 0.5) < 0.02


def test_truncated_normal():
    values = drawn(init.trunc_normal_, 0.0, 1.0, -1.0, 2.0)
    assert values.min() >= -1 and values.max() <= 2
    # Mean of N(0, 1) cut to [-1, 2]: (phi(-1) - phi(2)) / (Phi(2) - Phi(-1))
    assert abs(values.mean() - 0.2296) < 0.05
    with pytest.raises(ArgumentError, match="a must be less than b"):
        init.trunc_normal_(mt.zeros(2), a=1.0, b=1.0)
    with pytest.raises(ArgumentError, match="too few values"):
        init.trunc_normal_(mt.zeros(2), a=50.0, b=51.0)


@pytest.mark.parametrize(
    ("function", "options", "std"),
    [
        (init.xavier_uniform_, {"gain": 2.0}, 2 * math.sqrt(2 / (FAN_IN + FAN_OUT))),
        (init.xavier_normal_, {}, math.sqrt(2 / (FAN_IN + FAN_OUT))),
        (init.kaiming_uniform_, {}, math.sqrt(2 / FAN_IN)),
        (init.kaiming_uniform_, {"a": math.sqrt(5)}, math.sqrt(2 / 6 / FAN_IN)),
        (init.kaiming_normal_, {"mode": "fan_out", "nonlinearity": "relu"}, math.sqrt(2 / FAN_OUT)),
        (init.kaiming_normal_, {"nonlinearity": "tanh"}, 5 / 3 / math.sqrt(FAN_IN)),
    ],
)
def test_scaled_by_the_number_of_inputs_and_outputs(function, options, std):
    values = drawn(function, **options)
    assert abs(values.std() / std - 1) < 0.05 and abs(values.mean()) < 0.1 * std
    if "uniform" in function.__name__:
        assert abs(values).max() <= math.sqrt(3) * std


def test_kernel_axes_multiply_the_fans():
    values = drawn(init.kaiming_normal_, shape=(30, 8, 5, 5))
    assert abs(values.std() / math.sqrt(2 / 200) - 1) < 0.05


def test_constants():
    assert drawn(init.zeros_, shape=(2,)).tolist() == [0, 0]
    assert drawn(init.ones_, shape=(2,)).tolist() == [1, 1]
    assert drawn(init.constant_, 3.0, shape=(2,)).tolist() == [3, 3]
    assert drawn(init.eye_, shape=(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_wrong_calls():
    with pytest.raises(ShapeError, match="at least 2 axes"):
        init.xavier_uniform_(mt.zeros(3))
    with pytest.raises(ArgumentError, match="fan_in"):
        init.kaiming_normal_(mt.zeros(2, 3), mode="fan")
    with pytest.raises(ArgumentError, match="not supported"):
        init.calculate_gain("gelu2")


def test_a_generator_of_ones_own(rng):
    state = rng.bit_generator.state
    first = init.normal_(mt.zeros(5), generator=rng).numpy()
    rng.bit_generator.state = state
    np.testing.assert_array_equal(first, init.normal_(mt.zeros(5), generator=rng).numpy())


def build(device):
    mt.manual_seed(11)
    layer = nn.TransformerEncoderLayer(6, 2, 10, device=device)
    return nn.Sequential(nn.Embedding(7, 6, padding_idx=1, device=device), layer)


def test_one_seed_gives_the_same_weights_on_every_device(device):
    here, host = build(device), build("cpu")
    for (name, a), (_, b) in zip(here.named_parameters(), host.named_parameters(), strict=True):
        assert a.device == mt.ones(1, device=device).device
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=name)


def test_one_seed_gives_the_same_weights_in_every_dtype():
    mt.manual_seed(3)
    single = nn.Linear(3, 5).weight.numpy()
    mt.manual_seed(3)
    np.testing.assert_allclose(nn.Linear(3, 5, dtype=mt.float64).weight.numpy(), single, rtol=1e-6)


def test_default_initialisation_of_the_layers():
    mt.manual_seed(5)
    linear = nn.Linear(64, 50)
    bound = 1 / math.sqrt(64)
    for p in linear.parameters():
        assert 0.9 * bound < abs(p.numpy()).max() <= bound
    table = nn.Embedding(100, 50, padding_idx=-1)
    assert abs(table.weight.numpy()[:-1].std() - 1) < 0.05
    assert not table.weight.numpy()[-1].any() and table.padding_idx == 99
    attention = nn.MultiheadAttention(48, 4, add_bias_kv=True)
    bound = math.sqrt(6 / (4 * 48))
    assert 0.9 * bound < abs(attention.in_proj_weight.numpy()).max() <= bound
    assert not attention.in_proj_bias.numpy().any() and not attention.out_proj.bias.numpy().any()
    assert attention.bias_k.numpy().any() and attention.bias_v.numpy().any()
    norm = nn.LayerNorm(3)
    assert norm.weight.numpy().tolist() == [1, 1, 1] and not norm.bias.numpy().any()


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (7, 3, 2, 2), (2, 3, 5), (1, 1), (0, 3)])
def test_orthogonal_rows_or_columns(shape):
    values = drawn(init.orthogonal_, 3.0, shape=shape)
    values = values.reshape(shape[0], math.prod(shape[1:]))
    product = values @ values.T if values.shape[0] < values.shape[1] else values.T @ values
    if values.size:
        np.testing.assert_allclose(product, 9 * np.eye(len(product)), atol=1e-5)


def test_orthogonal_matrices_are_uniformly_distributed():
    """Without the signs of R, LAPACK's Q has a first column with a negative first entry."""
    first = np.array([init.orthogonal_(mt.empty(3, 3)).numpy()[0, 0] for _ in range(400)])
    assert 0.4 < (first > 0).mean() < 0.6


def test_orthogonal_needs_a_matrix():
    with pytest.raises(ShapeError, match="at least 2 axes"):
        init.orthogonal_(mt.empty(3))


def test_pytorchs_name_of_the_fans():
    assert init._calculate_fan_in_and_fan_out(mt.empty(2, 3, 5, 7)) == (105, 70)
