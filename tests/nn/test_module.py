"""Module: registration, iteration, modes, conversion and printing."""

import copy
import gc
import weakref

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, DTypeError


class Block(nn.Module):
    """Parameters, buffers and children registered in a mixed order."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.scale = nn.Parameter(mt.ones(3))
        self.register_buffer("count", mt.tensor([1.0]))
        self.register_buffer("cache", mt.tensor([7.0]), persistent=False)
        self.second = nn.Linear(3, 2, bias=False)

    def forward(self, x):
        return self.second(self.first(x) * self.scale)


def names(pairs):
    return [name for name, _ in pairs]


def test_own_parameters_come_before_those_of_children():
    expected = ["scale", "first.weight", "first.bias", "second.weight"]
    assert names(Block().named_parameters()) == expected


def test_buffers_follow_parameters_in_the_state_dict():
    expected = ["scale", "count", "first.weight", "first.bias", "second.weight"]
    assert list(Block().state_dict()) == expected


def test_prefix_and_recurse():
    block = Block()
    assert names(block.named_parameters("a", recurse=False)) == ["a.scale"]
    assert names(block.named_parameters("a"))[1] == "a.first.weight"
    assert names(block.named_buffers()) == ["count", "cache"]
    assert names(block.named_modules()) == ["", "first", "second"]
    assert names(block.named_modules(prefix="a")) == ["a", "a.first", "a.second"]
    assert names(block.named_children()) == ["first", "second"]


def test_a_tied_parameter_is_listed_once_under_its_first_name():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    assert names(model.named_parameters()) == ["0.weight"]
    assert names(model.named_parameters(remove_duplicate=False)) == ["0.weight", "1.weight"]
    assert list(model.state_dict()) == ["0.weight", "1.weight"]
    assert len(list(model.parameters())) == 1


def test_a_shared_module_is_listed_once():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    assert names(model.named_modules()) == ["", "0"]
    assert names(model.named_modules(remove_duplicate=False)) == ["", "0", "1"]
    assert names(model.named_children()) == ["0"]
    assert len(model.state_dict()) == 4


def test_tying_survives_conversion_and_deepcopy():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    twin = copy.deepcopy(model).double()
    assert twin[1].weight is twin[0].weight
    assert twin[0].weight.dtype == mt.float64
    assert model[0].weight.dtype == mt.float32


def test_assigning_none_keeps_the_place():
    layer = nn.Linear(2, 3)
    layer.bias = None
    assert layer.bias is None
    assert names(layer.named_parameters()) == ["weight"]
    assert "bias" in layer._parameters


def test_a_registered_name_refuses_other_types():
    layer = nn.Linear(2, 3)
    with pytest.raises(DTypeError, match="must be a Parameter or None"):
        layer.weight = mt.ones(3, 2)
    model = Block()
    with pytest.raises(DTypeError, match="must be a Module or None"):
        model.first = 3
    with pytest.raises(DTypeError, match="must be a Tensor or None"):
        model.count = 3
    model.count = mt.tensor([2.0])
    assert model.count.item() == 2.0 and "count" in model.state_dict()


def test_a_parameter_replaces_a_plain_attribute_and_the_other_way_round():
    model = Block()
    model.extra = 3
    model.extra = nn.Parameter(mt.ones(1))
    assert names(model.named_parameters())[1] == "extra"
    del model.extra
    assert not hasattr(model, "extra")
    model.extra = 3
    assert names(model.named_parameters()) == names(Block().named_parameters())


def test_replacing_a_child_keeps_its_place_in_the_order():
    model = Block()
    model.first = nn.Identity()
    assert names(model.named_children()) == ["first", "second"]


def test_deleting_registered_things():
    model = Block()
    del model.scale, model.first, model.cache
    assert names(model.named_parameters()) == ["second.weight"]
    assert names(model.named_buffers()) == ["count"]
    with pytest.raises(AttributeError):
        del model.scale


def test_entries_are_attributes_that_python_finds_at_once():
    model = Block()
    for name in ("scale", "first", "count"):
        assert vars(model)[name] is getattr(model, name)
    model.first = other = nn.Identity()
    assert vars(model)["first"] is other is model._modules["first"]
    twin = copy.deepcopy(model)
    assert vars(twin)["scale"] is twin._parameters["scale"] is not model.scale
    del model.first
    assert "first" not in vars(model)


def test_containers_leave_no_entry_behind():
    items = nn.ModuleList([nn.Linear(1, n) for n in (1, 2, 3)])
    kept = items[2]
    del items[1]
    assert getattr(items, "1") is kept and not hasattr(items, "2")
    items.insert(0, nn.Identity())
    assert getattr(items, "2") is kept
    named = nn.ModuleDict({"a": nn.Identity(), "b": kept})
    del named["a"]
    assert not hasattr(named, "a") and named.b is kept
    named.clear()
    assert not hasattr(named, "b")


def test_a_missing_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Linear has no attribute 'weigth'"):
        _ = nn.Linear(2, 3).weigth


def test_assigning_before_init_says_what_to_do():
    class Forgetful(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2, 3)

    with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\) before"):
        Forgetful()


@pytest.mark.parametrize("name", ["a.b", "", 3])
def test_bad_names_are_refused(name):
    with pytest.raises(ArgumentError):
        nn.Module().register_parameter(name, None)


def test_registering_over_another_attribute_is_refused():
    model = Block()
    with pytest.raises(ArgumentError, match="the attribute already exists"):
        model.register_buffer("first", mt.ones(1))
    with pytest.raises(DTypeError, match="must be a Parameter or None"):
        model.register_parameter("bare", mt.ones(1))
    model.register_buffer("count", mt.tensor([2.0]))  # again under its own name
    assert model.count.item() == 2.0


def test_persistent_can_be_changed_by_registering_again():
    model = Block()
    model.register_buffer("count", mt.ones(1), persistent=False)
    assert "count" not in model.state_dict()
    model.register_buffer("count", mt.ones(1))
    assert "count" in model.state_dict()


def test_getting_things_by_dotted_name():
    model = nn.Sequential(Block())
    assert model.get_submodule("0.first") is model[0].first
    assert model.get_submodule("") is model
    assert model.get_parameter("0.first.bias") is model[0].first.bias
    assert model.get_buffer("0.cache") is model[0].cache
    for getter in (model.get_submodule, model.get_parameter, model.get_buffer):
        with pytest.raises(AttributeError, match="third"):
            getter("0.third")


def test_train_and_eval_reach_every_module():
    model = nn.Sequential(Block(), nn.Dropout(0.5))
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model[0].train()
    assert model[0].first.training and not model[1].training
    with pytest.raises(DTypeError):
        model.train("yes")


def test_apply_goes_children_first():
    seen = []
    model = Block()
    assert model.apply(lambda module: seen.append(type(module).__name__)) is model
    assert seen == ["Linear", "Linear", "Block"]


def test_requires_grad_and_zero_grad(device):
    model = Block().to(device)
    assert model.requires_grad_(False) is model
    assert not any(p.requires_grad for p in model.parameters())
    model.requires_grad_()
    model(mt.ones(5, 2, device=device)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad(set_to_none=False)
    assert all(not p.grad.numpy().any() for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_conversion_keeps_the_parameters_and_converts_their_gradients(device):
    model = Block().to(device)
    before = list(model.parameters())
    model(mt.ones(5, 2, device=device)).sum().backward()
    assert model.double() is model
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))
    assert {p.dtype for p in before} == {p.grad.dtype for p in before} == {mt.float64}
    assert model.count.dtype == mt.float64
    model(mt.ones(5, 2, device=device, dtype=mt.float64)).sum().backward()
    assert model.half().scale.dtype == mt.float16
    assert model.type(mt.float32).float().cpu().scale.device.type == "cpu"


def test_conversion_leaves_integer_buffers_alone(device):
    model = nn.Module()
    model.register_buffer("steps", mt.tensor([3]))
    model.to(device, mt.float64)
    assert model.steps.dtype == mt.int64 and str(model.steps.device) == str(mt.device(device))
    with pytest.raises(DTypeError, match="floating-point"):
        nn.Linear(2, 3).to(mt.int64)


def test_to_like_a_tensor(device):
    model = Block().to(mt.ones(1, dtype=mt.float64, device=device))
    assert model.scale.dtype == mt.float64
    assert model.scale.device == mt.ones(1, device=device).device


def test_deepcopy_shares_nothing(device):
    model = Block().to(device)
    model(mt.ones(5, 2, device=device)).sum().backward()
    twin = copy.deepcopy(model)
    assert names(twin.named_parameters()) == names(model.named_parameters())
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert isinstance(b, nn.Parameter) and a is not b
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())
    with mt.no_grad():
        twin.scale.mul_(3.0)
        twin.scale.grad.mul_(3.0)
    assert not np.array_equal(model.scale.numpy(), twin.scale.numpy())
    assert not np.array_equal(model.scale.grad.numpy(), twin.scale.grad.numpy())
    frozen = copy.deepcopy(model.requires_grad_(False))
    assert not frozen.scale.requires_grad and isinstance(frozen.scale, nn.Parameter)


def test_a_model_is_freed_by_reference_count(device):
    gc.disable()
    try:
        model = Block().to(device)
        model(mt.ones(5, 2, device=device)).sum().backward()
        gone = weakref.ref(model)
        del model
        assert gone() is None
    finally:
        gc.enable()


def test_repr_nests_like_pytorch():
    model = nn.Sequential(nn.Linear(2, 3), nn.ModuleDict({"a": nn.Dropout(0.1)}))
    assert repr(model) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): ModuleDict(\n"
        "    (a): Dropout(p=0.1, inplace=False)\n"
        "  )\n"
        ")"
    )


def test_dir_lists_registered_names():
    assert {"scale", "count", "first", "forward"} <= set(dir(Block()))


def test_forward_is_left_to_subclasses():
    with pytest.raises(NotImplementedError, match="Module does not define forward"):
        nn.Module()(1)


def test_a_parameter_shares_the_memory_of_its_tensor(device):
    x = mt.ones(3, device=device)
    p = nn.Parameter(x)
    with mt.no_grad():
        p.add_(1.0)
    assert x.numpy().tolist() == [2.0, 2.0, 2.0]
    assert p.requires_grad and p.is_leaf and not x.requires_grad
    assert not nn.Parameter(x, requires_grad=False).requires_grad
    assert repr(nn.Parameter(mt.ones(1))).startswith("Parameter containing:\ntensor([1.]")


def test_a_change_of_the_shared_memory_is_noticed(device):
    x = mt.ones(3, device=device)
    p = nn.Parameter(x)
    y = (p * p).sum()
    x.add_(1.0)
    with pytest.raises(mt.errors.GraphError, match="changed in place"):
        y.backward()


def test_a_parameter_of_an_array_is_a_copy():
    host = np.ones(3)
    p = nn.Parameter(host)
    host += 1
    assert p.numpy().tolist() == [1.0, 1.0, 1.0]


def test_eval_mode_for_a_while_leaves_every_module_as_it_was():
    model = mt.nn.Sequential(mt.nn.Linear(2, 3), mt.nn.Sequential(mt.nn.Dropout(0.5)).eval())
    modes = [module.training for module in model.modules()]
    assert modes == [True, True, False, False]
    with pytest.raises(KeyError), mt.nn.evaluating(model) as same:
        assert same is model and not any(module.training for module in model.modules())
        raise KeyError
    assert [module.training for module in model.modules()] == modes
