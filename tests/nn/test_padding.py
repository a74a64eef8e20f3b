"""Padding layers equal NumPy's padding."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, ShapeError

MODES = {"Constant": "constant", "Zero": "constant", "Reflection": "reflect",
         "Replication": "edge", "Circular": "wrap"}  # fmt: skip


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", MODES)
def test_pads_as_numpy_does(kind, axes, make):
    x = make(2, 3, *(4, 5, 3)[:axes])
    amounts = (1, 2, 0, 1, 2, 0)[: 2 * axes]
    value = {"constant_values": 7.0 if kind == "Constant" else 0.0}
    layer = getattr(nn, f"{kind}Pad{axes}d")(amounts, *[7.0] * (kind == "Constant"))
    pairs = [(0, 0), (0, 0), *zip(amounts[::2], amounts[1::2], strict=True)][: 2 + axes]
    pairs = pairs[:2] + pairs[:1:-1]  # ours start with the last axis
    mode = MODES[kind]
    expected = np.pad(x.detach().numpy(), pairs, mode, **(value if mode == "constant" else {}))
    np.testing.assert_array_equal(layer(x).detach().numpy(), expected)
    assert mt.gradcheck.gradcheck(layer, x)


def test_one_number_is_for_all_sides():
    assert nn.ZeroPad3d(1)(mt.ones(1, 2, 3, 4)).shape == (1, 4, 5, 6)
    assert nn.ReflectionPad2d(1)(mt.ones(1, 2, 2)).shape == (1, 4, 4)


def test_wrong_amounts():
    with pytest.raises(ArgumentError, match="ZeroPad2d: padding must be"):
        nn.ZeroPad2d((1, 2))
    with pytest.raises(ShapeError, match="crops more"):
        nn.ZeroPad1d(-2)(mt.ones(1, 3))
