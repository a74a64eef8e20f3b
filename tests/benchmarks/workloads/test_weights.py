"""Every engine has the same random weights, in separate or packed matrices."""

import numpy as np

from benchmarks.workloads import weights


def test_a_name_gives_one_value():
    first, again = (weights.draw("a.weight", (5, 7)) for _ in range(2))
    assert np.array_equal(first, again) and first.dtype == np.float32
    assert not np.array_equal(first, weights.draw("b.weight", (5, 7)))


def test_sizes_keep_activations_near_one():
    assert abs(weights.draw("linear.weight", (300, 400)).std() * 20 - 1) < 0.02
    assert abs(weights.draw("norm.weight", (300,)).mean() - 1) < 0.01
    assert abs(weights.draw("norm.bias", (300,)).mean()) < 0.01


def test_packed_matrices_come_apart_again():
    packed = weights.draw_packed("0.attention.qkv_proj.weight", (33, 7))
    parts = weights.apart({"0.attention.qkv_proj.weight": packed})
    assert list(parts) == [f"0.attention.{letter}_proj.weight" for letter in "qkv"]
    for name, part in parts.items():
        assert np.array_equal(part, weights.draw(name, (11, 7)))


def test_other_names_stay():
    array = weights.draw_packed("norm.weight", (5,))
    assert np.array_equal(array, weights.draw("norm.weight", (5,)))
    assert list(weights.apart({"norm.weight": array})) == ["norm.weight"]
