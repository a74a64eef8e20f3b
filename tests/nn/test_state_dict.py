"""State dicts: saving, loading, and errors."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import CheckpointError, DTypeError


@pytest.fixture
def model(device):
    return nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)).to(device)


def arrays(model):
    return {name: value.numpy().copy() for name, value in model.state_dict().items()}


def test_values_share_memory_and_stand_outside_the_graph(model):
    state = model.state_dict()
    assert not any(value.requires_grad for value in state.values())
    with mt.no_grad():
        model[0].bias.zero_()
    assert not state["0.bias"].numpy().any()
    assert model.state_dict(keep_vars=True)["0.bias"] is model[0].bias


def test_prefix_and_destination(model):
    mine = {"x": 1}
    assert model.state_dict(destination=mine, prefix="a.") is mine
    assert list(mine) == ["x", "a.0.weight", "a.0.bias", "a.1.weight", "a.1.bias"]


@pytest.mark.parametrize("kind", ["arrays", "tensors"])
def test_round_trip_keeps_the_memory(model, device, kind):
    other = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)).to(device)
    before = [p.data_ptr() for p in model.parameters()]
    result = model.load_state_dict(arrays(other) if kind == "arrays" else other.state_dict())
    assert result.missing_keys == result.unexpected_keys == []
    for name, value in arrays(model).items():
        np.testing.assert_array_equal(value, other.state_dict()[name].numpy())
    assert before == [p.data_ptr() for p in model.parameters()]
    with mt.no_grad():
        other[0].weight.zero_()  # a copy, not a share
    assert model[0].weight.numpy().any()


def test_values_are_cast_to_the_dtype_of_the_module(model):
    model.load_state_dict({k: v.astype("float64") for k, v in arrays(model).items()})
    assert {p.dtype for p in model.parameters()} == {mt.float32}


def test_assign_takes_memory_and_dtype(model, device):
    values = {k: mt.tensor(v.astype("float64"), device=device) for k, v in arrays(model).items()}
    model.load_state_dict(values, assign=True)
    assert model[0].weight.dtype == mt.float64
    assert model[0].weight.data_ptr() == values["0.weight"].data_ptr()
    assert isinstance(model[0].weight, nn.Parameter) and model[0].weight.requires_grad


def test_one_error_lists_everything_and_changes_nothing(model):
    state = arrays(model)
    before = arrays(model)
    state["0.weight"] = np.full((3, 5), 9.0)
    state["0.bias"] = np.full(3, 9.0)
    state["1.weight"] = 3.0
    del state["1.bias"]
    state["head.weight"] = np.zeros(1)
    with pytest.raises(CheckpointError) as caught:
        model.load_state_dict(state)
    text = str(caught.value)
    wrong = "0.weight: (3, 5), expected (3, 2)"
    for part in ("missing", "1.bias", "unexpected", "head.weight", wrong, "1.weight: a float"):
        assert part in text
    assert "0.bias:" not in text
    for name, value in arrays(model).items():
        np.testing.assert_array_equal(value, before[name])


def test_not_strict_reports_names_but_never_ignores_shapes(model):
    state = arrays(model)
    del state["1.bias"]
    state["x"] = np.zeros(1)
    state["0.bias"] = np.full(3, 2.0)
    result = model.load_state_dict(state, strict=False)
    assert result.missing_keys == ["1.bias"] and result.unexpected_keys == ["x"]
    assert model[0].bias.numpy().tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(CheckpointError, match="wrong shape"):
        model.load_state_dict({"0.bias": np.zeros(5)}, strict=False)


def test_not_a_dict(model):
    with pytest.raises(DTypeError, match="must be a dict"):
        model.load_state_dict(list(arrays(model).items()))


def test_a_load_is_noticed_by_a_backward_pass_that_needs_the_old_values(model, make):
    y = model[0](make(5, 2, dtype="float32"))
    model.load_state_dict(arrays(model))
    with pytest.raises(mt.errors.GraphError, match="changed in place"):
        y.sum().backward()


def test_buffers_are_loaded_in_their_own_dtype(device):
    model = nn.Module()
    model.register_buffer("steps", mt.tensor(3))
    model.to(device).load_state_dict({"steps": np.array(5)})
    assert model.steps.item() == 5 and model.steps.dtype == mt.int64


def test_the_result_of_loading_says_that_all_keys_matched():
    layer = mt.nn.Linear(2, 3)
    result = layer.load_state_dict(layer.state_dict())
    assert repr(result) == str(result) == "<All keys matched successfully>"
    result = layer.load_state_dict({}, strict=False)
    assert repr(result) == ("IncompatibleKeys(missing_keys=['weight', 'bias'], unexpected_keys=[])")
