"""Checks made from the library: what is sent, what is compared, and the expected values."""

import numpy as np
import pytest

from minitorch_attn.grader.build import drivers
from minitorch_attn.grader.build.checking import (
    call_check,
    gradient_check,
    layer_check,
    operation_check,
    parameters,
)
from minitorch_attn.grader.grade.judge import judge

SOFTMAX = "minitorch_attn.ops.softmax:Softmax"
LAYER = "minitorch_attn.nn.layer_norm:LayerNorm"


def answered(check):
    """What the driver's text, run by itself, returns."""
    space = {"__name__": "driver"}
    exec(check.source, space)
    return space["run"](check.inputs, check.settings)


def test_the_truth_of_a_formula_takes_the_place_of_the_librarys():
    x = np.arange(6.0).reshape(2, 3)
    made = operation_check("a", SOFTMAX, {"x": x}, {"axis": -1}, expected={"output": x})
    assert made.expected["output"] is x
    assert judge(made, answered(made)).status == "failed"


def test_a_backward_pass_is_judged_by_its_gradients_and_closely():
    x, grad = np.random.default_rng(0).normal(size=(2, 3, 4))
    made = operation_check("a", SOFTMAX, {"x": x}, {"axis": -1}, grad)
    assert list(made.expected) == ["grad_x"]
    found = answered(made)
    assert judge(made, found).passed
    found["grad_x"] = found["grad_x"] + 1e-9  # no better than differences of forward passes
    assert not judge(made, found).passed


def test_a_change_of_the_inputs_is_seen():
    x = np.random.default_rng(0).normal(size=(3, 4))
    made = operation_check("a", SOFTMAX, {"x": x}, {"axis": -1})
    assert np.array_equal(made.expected["x_afterwards"], x)


def test_the_truth_does_not_depend_on_changes_in_place_elsewhere():
    import minitorch_attn as mt

    mt.zeros(2).add_(1.0)
    x, grad = np.random.default_rng(0).normal(size=(2, 3, 4))
    made = operation_check("a", SOFTMAX, {"x": x}, {"axis": -1}, grad)
    assert judge(made, answered(made)).passed


def test_a_layer_gets_parameters_that_it_does_not_start_with():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 4))
    made = layer_check("a", LAYER, {"normalized_shape": 4}, {"x": x}, rng)
    weight, bias = made.inputs["parameter weight"], made.inputs["parameter bias"]
    assert abs(bias).min() > 0 and abs(weight - 1).min() > 0
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(made.expected["output"], normal * weight + bias)
    assert sorted(parameters(LAYER, {"normalized_shape": 4}, rng)) == [
        "parameter bias",
        "parameter weight",
    ]


def test_several_results_and_masks():
    x = np.arange(6.0)
    made = call_check("a", "minitorch_attn.ops:chunk", {"x": x}, {"chunks": 2})
    assert [array.tolist() for array in made.expected.values()] == [[0, 1, 2], [3, 4, 5]]
    made = call_check("a", "minitorch_attn.nn.masks:causal", {}, {"n": 2})
    assert made.expected["output"].tolist() == [[True, False], [True, True]]


def test_gradients_are_those_of_finite_differences_and_none_is_round_off():
    rng = np.random.default_rng(1)
    block = "minitorch_attn.models.vit:Block"
    make, x = {"embed_dim": 4, "num_heads": 2, "mlp_dim": 6}, rng.normal(size=(2, 3, 4))
    value = layer_check("a", block, make, {"x": x}, rng)
    made = gradient_check(value, rng)
    # A bias of the keys moves all scores of a row alike.
    assert "grad_parameter attention.k_proj.bias" not in made.expected
    assert "grad_parameter attention.q_proj.bias" in made.expected
    assert judge(made, answered(made)).passed
    step = 1e-6 * rng.normal(size=x.shape)
    up, down = (
        drivers.layer({**value.inputs, "x": x + s}, value.settings)["output"] for s in (step, -step)
    )
    change = ((up - down) * made.inputs["grad"]).sum() / 2
    assert np.isclose(change, (made.expected["grad_x"] * step).sum(), rtol=1e-6)


def test_what_was_cut_off_is_said():
    rng = np.random.default_rng(1)
    table = {"table": rng.normal(size=(6, 5))}
    keywords = {"old_grid": [2, 3], "new_grid": [3, 4]}
    function = "minitorch_attn.models.vit_positions:interpolate_positions"
    made = gradient_check(call_check("a", function, table, keywords), rng)
    assert list(made.expected) == ["grad_table"]
    made.settings["function"] = "minitorch_attn.ops.creation:zeros_like"
    made.settings["keywords"] = {}
    with pytest.raises(ValueError, match="the result does not require grad"):
        answered(made)
