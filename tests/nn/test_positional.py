"""Positions: the published formulas, and the properties of rotary positions."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module, gradgradcheck
from minitorch_attn.errors import ArgumentError, IndexRangeError, ShapeError
from minitorch_attn.gradcheck import gradcheck

TOKENS, DIM = 7, 6


def host(tensor):
    return tensor.detach().numpy()


def formula(num_positions, dim, base=10000.0, offset=0):
    table = np.zeros((num_positions, dim))
    for position in range(num_positions):
        for i in range(dim // 2):
            angle = (position + offset) / base ** (2 * i / dim)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


@pytest.mark.parametrize("options", [{}, {"base": 100.0}, {"offset": 40}])
def test_sinusoidal_table(device, options):
    table = nn.sinusoidal_positions(TOKENS, DIM, dtype=mt.float64, device=device, **options)
    np.testing.assert_allclose(host(table), formula(TOKENS, DIM, **options), atol=1e-13)
    assert nn.sinusoidal_positions(3, 2).dtype == mt.float32


def test_a_shift_of_sinusoids_is_linear(device):
    """Section 3.5 of the paper: PE[pos + k] is one linear map of PE[pos], for every pos."""
    table = formula(40, DIM)
    shift, *_ = np.linalg.lstsq(table[:30], table[5:35], rcond=None)
    np.testing.assert_allclose(table[:30] @ shift, table[5:35], atol=1e-9)


def test_sinusoidal_encoding(make):
    x = make(2, TOKENS, DIM)
    module = nn.SinusoidalPositionalEncoding(DIM, max_len=11).to(x.device)
    np.testing.assert_allclose(host(module(x)), host(x) + formula(TOKENS, DIM), atol=1e-13)
    later = module(x[:, :3], offset=4)
    np.testing.assert_allclose(host(later), host(x[:, :3]) + formula(3, DIM, offset=4), atol=1e-13)
    assert not module.state_dict() and not list(module.parameters())
    assert module(x.float()).dtype == mt.float32
    assert gradcheck_module(module, x)


def test_learned_positions(make, device):
    module = nn.LearnedPositionalEmbedding(11, DIM, dtype=mt.float64, device=device)
    x = make(2, TOKENS, DIM)
    expected = host(x) + host(module.weight)[2 : 2 + TOKENS]
    np.testing.assert_allclose(host(module(x, offset=2)), expected, atol=1e-13)
    assert list(module.state_dict()) == ["weight"]
    assert gradcheck_module(module, x)
    assert repr(module) == "LearnedPositionalEmbedding(11, 6)"


def test_learned_positions_in_two_dimensions(make, device):
    height, width = 3, 5
    module = nn.LearnedPositionalEmbedding2d(height, width, DIM, dtype=mt.float64, device=device)
    x = make(2, height * width, DIM)
    rows, columns = host(module.row_weight), host(module.column_weight)
    for place in range(height * width):
        row, column = divmod(place, width)
        added = (host(module(x)) - host(x))[1, place]
        np.testing.assert_allclose(added, [*rows[row], *columns[column]], atol=1e-13)
    assert gradcheck_module(module, x)
    with pytest.raises(ShapeError, match="a grid of 3 by 5"):
        module(x[:, 1:])


def rotated(x, position, interleaved, base=10000.0):
    """Eq. 34 of RoFormer for one vector, pair by pair."""
    dim = len(x)
    y = np.zeros(dim)
    for i in range(dim // 2):
        angle = position * base ** (-2 * i / dim)
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2)
        y[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
        y[b] = x[b] * math.cos(angle) + x[a] * math.sin(angle)
    return y


LAYOUTS = pytest.mark.parametrize("interleaved", [True, False])


@LAYOUTS
def test_rotary_against_the_formula(make, device, interleaved):
    module = nn.RotaryEmbedding(DIM, max_len=50, interleaved=interleaved, device=device)
    x = make(2, 3, TOKENS, DIM)
    for offset in (0, 13):
        y = host(module(x, offset=offset))
        for token in range(TOKENS):
            expected = rotated(host(x)[1, 2, token], token + offset, interleaved)
            np.testing.assert_allclose(y[1, 2, token], expected, atol=1e-12)
    assert module(x.float()).dtype == mt.float32
    assert not module.state_dict()


@LAYOUTS
def test_rotary_products_depend_on_the_distance_only(rng, device, interleaved):
    module = nn.RotaryEmbedding(DIM, max_len=300, interleaved=interleaved, device=device)
    query, key = (mt.tensor(rng.normal(size=(1, DIM)), device=device) for _ in range(2))

    def product(m, n):
        return (module(query, offset=m) * module(key, offset=n)).sum().item()

    for distance in (0, 1, 5, -3):
        products = [product(n + distance, n) for n in (3, 17, 250)]
        np.testing.assert_allclose(products, products[0], atol=1e-12)
    assert abs(product(3, 3) - product(4, 3)) > 1e-3
    assert abs(product(4, 3) - product(3, 4)) > 1e-3


@LAYOUTS
def test_rotary_keeps_lengths(make, device, interleaved):
    x = make(3, TOKENS, DIM)
    y = nn.RotaryEmbedding(DIM, interleaved=interleaved, device=device)(x, offset=100)
    np.testing.assert_allclose((host(y) ** 2).sum(-1), (host(x) ** 2).sum(-1), atol=1e-12)


def test_the_two_layouts_are_one_rotation_of_reordered_features(make, device):
    x = make(TOKENS, DIM)
    order = np.concatenate([np.arange(0, DIM, 2), np.arange(1, DIM, 2)])
    halves = nn.RotaryEmbedding(DIM, device=device)
    neighbours = nn.RotaryEmbedding(DIM, interleaved=True, device=device)
    reordered = mt.tensor(host(x)[:, order], device=device)
    np.testing.assert_allclose(host(halves(reordered)), host(neighbours(x))[:, order], atol=1e-13)


@LAYOUTS
def test_rotary_gradients(make, device, interleaved):
    module = nn.RotaryEmbedding(DIM, interleaved=interleaved, device=device)
    x = make(2, TOKENS, DIM)
    assert gradcheck(module, x)
    assert gradgradcheck(module, x)


def test_rotary_with_a_cache_equals_all_at_once(make, device):
    module, x = nn.RotaryEmbedding(DIM, device=device), make(2, TOKENS, DIM)
    pieces = [module(x[:, :4]), module(x[:, 4:5], offset=4), module(x[:, 5:], offset=5)]
    np.testing.assert_array_equal(host(mt.cat(pieces, 1)), host(module(x)))


def test_positions_of_each_batch_item(make, device):
    """Angles of a shape that broadcasts: here other positions in each batch item."""
    x = make(2, 3, 5, DIM)
    cos, sin = nn.rotary_table(9, DIM, dtype=mt.float64, device=device)
    positions = mt.tensor([[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]], device=device)
    cos, sin = cos[positions].unsqueeze(1), sin[positions].unsqueeze(1)
    y = host(mt.apply_rotary(x, cos, sin))
    np.testing.assert_allclose(y[1, 2, 3], rotated(host(x)[1, 2, 3], 7, False), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nn.sinusoidal_positions(3, 5), ArgumentError, "even"),
        (lambda: nn.RotaryEmbedding(5), ArgumentError, "even"),
        (lambda: nn.LearnedPositionalEmbedding2d(3, 5, 7), ArgumentError, "even"),
        (lambda: nn.RotaryEmbedding(4, max_len=3)(mt.zeros(5, 4)), IndexRangeError, "max_len"),
        (lambda: nn.RotaryEmbedding(4)(mt.zeros(5, 4), offset=-1), IndexRangeError, "from 0"),
        (lambda: nn.RotaryEmbedding(4)(mt.zeros(4)), ShapeError, "token, features"),
        (lambda: nn.RotaryEmbedding(4)(mt.zeros(5, 6)), ShapeError, "cos and sin do not match"),
        (lambda: mt.apply_rotary(mt.zeros(5, 3), *[mt.zeros(5, 1)] * 2), ShapeError, "even"),
    ],
)
def test_wrong_calls(call, error, text):
    with pytest.raises(error, match=text):
        call()
