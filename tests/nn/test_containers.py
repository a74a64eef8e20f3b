"""Containers: Sequential, and lists and dictionaries of modules and parameters."""

import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, DTypeError, IndexRangeError


class Add(nn.Module):
    def __init__(self, amount):
        super().__init__()
        self.amount = amount

    def forward(self, x):
        return x + self.amount

    def extra_repr(self):
        return str(self.amount)


def amounts(container):
    return [module.amount for module in container]


def test_sequential_calls_in_order():
    net = nn.Sequential(Add(1.0), nn.Module())
    net[1].forward = lambda x: x * 10
    assert net(mt.tensor([2.0])).item() == 30.0


def test_sequential_from_a_dict_keeps_names_through_slices():
    net = nn.Sequential({"a": Add(1), "b": Add(2), "c": Add(3)})
    assert net.b.amount == 2 and net[1] is net.b
    assert list(net[1:]._modules) == ["b", "c"]


@pytest.mark.parametrize("kind", [nn.Sequential, nn.ModuleList])
def test_list_operations(kind):
    modules = [Add(i) for i in range(4)]
    net = kind(*modules) if kind is nn.Sequential else kind(modules)
    assert len(net) == 4 and net[-1] is modules[3]
    assert amounts(net[1:3]) == [1, 2] and type(net[1:3]) is kind
    net[0] = Add(9)
    net.append(Add(4)).insert(1, Add(7))
    assert amounts(net) == [9, 7, 1, 2, 3, 4]
    assert list(net._modules) == ["0", "1", "2", "3", "4", "5"]
    del net[0]
    del net[-2:]
    assert amounts(net) == [7, 1, 2] and list(net._modules) == ["0", "1", "2"]
    assert net.pop(1).amount == 1
    net += [Add(5)]
    assert amounts(net + [Add(6)]) == [7, 2, 5, 6] and len(net) == 3
    assert amounts(net.extend([Add(8)])) == [7, 2, 5, 8]


def test_a_list_added_to_itself():
    net = nn.ModuleList([Add(1)])
    net.extend(net)
    assert amounts(net) == [1, 1]


def test_wrong_index_and_wrong_type():
    net = nn.ModuleList([Add(1)])
    with pytest.raises(IndexRangeError, match="index is out of range"):
        net[3]
    with pytest.raises(DTypeError, match="must be a Module or None"):
        net.append(mt.ones(1))
    with pytest.raises(DTypeError, match=r"ModuleList\(\[module\]\)"):
        nn.ModuleList(Add(1))
    with pytest.raises(ArgumentError, match="must be iterable"):
        nn.ModuleList(3)


def test_equal_neighbours_are_shown_once():
    net = nn.ModuleList([Add(1), Add(1), Add(2), nn.Sequential(Add(3)), nn.Sequential(Add(3))])
    assert repr(net) == (
        "ModuleList(\n"
        "  (0-1): 2 x Add(1)\n"
        "  (2): Add(2)\n"
        "  (3-4): 2 x Sequential(\n"
        "    (0): Add(3)\n"
        "  )\n"
        ")"
    )


def test_module_dict():
    heads = nn.ModuleDict({"a": nn.Linear(2, 3)})
    heads["b"] = Add(2)
    heads.update([("c", Add(3))])
    assert list(heads) == list(heads.keys()) == ["a", "b", "c"] and "b" in heads
    assert [name for name, _ in heads.items()] == ["a", "b", "c"] and len(heads.values()) == 3
    assert heads.pop("b").amount == 2 and len(heads) == 2
    del heads["c"]
    assert list(heads.state_dict()) == ["a.weight", "a.bias"]
    heads.clear()
    assert not list(heads.parameters())


def test_parameter_list_and_dict(device):
    several = nn.ParameterList([mt.ones(2, device=device), nn.Parameter(mt.ones(3, device=device))])
    several.append(mt.zeros(5, device=device))
    assert [p.shape for p in several] == [(2,), (3,), (5,)]
    assert all(isinstance(p, nn.Parameter) for p in several)
    assert list(several.state_dict()) == ["0", "1", "2"]
    several[0] = mt.zeros(7, device=device)
    assert several[0].shape == (7,) and several[:2][1].shape == (3,)
    del several[0]
    assert [name for name, _ in several.named_parameters()] == ["0", "1"]
    named = nn.ParameterDict({"a": mt.ones(2), "b": mt.ones(3)})
    assert [name for name, _ in named.named_parameters()] == ["a", "b"]
    assert repr(named).splitlines()[1] == "  (a): Parameter of shape (2,), float32"


@pytest.mark.parametrize(
    ("create", "hint"),
    [(lambda: nn.Sequential([nn.ReLU()]), "use nn.Sequential(*layers)"),
     (lambda: nn.Sequential(nn.ReLU() for _ in range(2)), "use nn.Sequential(*layers)"),
     (lambda: nn.ModuleList([[nn.ReLU()]]), "nn.ModuleList(layers) for an inner list"),
     (lambda: nn.Sequential(nn.Linear(2, 2), nn.functional.relu), "use nn.ReLU()"),
     (lambda: nn.Sequential(mt.leaky_relu), "use nn.LeakyReLU()"),
     (lambda: nn.ModuleDict({"a": mt.flatten}), "use nn.Flatten()"),
     (lambda: nn.Sequential().append(nn.functional.softmax), "use nn.Softmax()"),
     (lambda: nn.Sequential(nn.ReLU), "such as nn.ReLU(), not a class"),
     (lambda: nn.Sequential(lambda x: x), "a subclass of nn.Module")],
)  # fmt: skip
def test_what_to_write_instead_of_a_value_that_is_not_a_module(create, hint):
    with pytest.raises(DTypeError, match="the value must be a Module") as caught:
        create()
    assert hint in caught.value.hint


def test_a_layer_of_einops_for_pytorch_is_named():
    foreign = type("Rearrange", (), {"__module__": "einops.layers.torch"})
    with pytest.raises(DTypeError) as caught:
        nn.Sequential(foreign())
    assert "`from minitorch_attn.einops.layers import Rearrange`" in caught.value.hint
