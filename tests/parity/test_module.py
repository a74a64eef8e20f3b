"""Module against PyTorch's: printing, iteration, the order of hooks and their arguments."""

from collections import OrderedDict

import pytest

import minitorch_attn as mt
from minitorch_attn import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity


def tree(lib):
    """The same tree of modules from either library."""
    tensor = (lambda v: mt.tensor(v)) if lib is nn else (lambda v: torch.tensor(v))

    class Block(lib.Module):
        def __init__(self):
            super().__init__()
            self.pre = lib.Linear(3, 3)
            self.scale = lib.Parameter(tensor([1.0]))
            self.register_buffer("count", tensor([2.0]))
            self.register_buffer("cache", tensor([2.0]), persistent=False)
            self.tied = lib.Linear(3, 3, bias=False)
            self.tied.weight = self.pre.weight
            self.none = None

    shared = lib.Identity()
    return lib.Sequential(
        Block(),
        lib.ModuleList([shared, shared, lib.Dropout(0.1), lib.LayerNorm(3, bias=False)]),
        lib.ModuleDict({"a": lib.GELU(), "b": lib.Embedding(5, 3, padding_idx=1)}),
        lib.Sequential(OrderedDict(x=lib.ReLU(), y=lib.Sequential())),
    )


def test_repr_of_a_tree():
    assert repr(tree(nn)) == repr(tree(torch.nn))


@pytest.mark.parametrize(
    "make",
    [
        lambda lib: lib.Linear(2, 3, bias=False),
        lambda lib: lib.Embedding(5, 3, max_norm=1.0, scale_grad_by_freq=True),
        lambda lib: lib.LayerNorm((2, 3), eps=1e-6, elementwise_affine=False),
        lambda lib: lib.RMSNorm(3),
        lambda lib: lib.GELU("tanh"),
        lambda lib: lib.ReLU(inplace=True),
        lambda lib: lib.ELU(0.5),
        lambda lib: lib.LeakyReLU(0.2, inplace=True),
        lambda lib: lib.Softplus(2, 10),
        lambda lib: lib.Softmax(-1),
        lambda lib: lib.GLU(0),
        lambda lib: lib.Dropout(0.3),
        lambda lib: lib.Identity(),
        lambda lib: lib.ModuleList([lib.Sequential(lib.Tanh()) for _ in range(3)]),
        lambda lib: lib.Sequential(),
    ],
)
def test_repr_of_a_layer(make):
    assert repr(make(nn)) == repr(make(torch.nn))


@pytest.mark.parametrize("remove_duplicate", [True, False])
@pytest.mark.parametrize("method", ["named_parameters", "named_buffers", "named_modules"])
def test_names(method, remove_duplicate):
    ours, theirs = (
        [name for name, _ in getattr(tree(lib), method)(remove_duplicate=remove_duplicate)]
        for lib in (nn, torch.nn)
    )
    assert ours == theirs


def test_names_of_the_state_dict_and_of_children():
    ours, theirs = tree(nn), tree(torch.nn)
    assert list(ours.state_dict(prefix="p.")) == list(theirs.state_dict(prefix="p."))
    assert [n for n, _ in ours[1].named_children()] == [n for n, _ in theirs[1].named_children()]
    assert [n for n, _ in ours.named_parameters("q", recurse=False)] == []


def recorded_hooks(lib, tensor):
    """The story that all kinds of hooks tell in one forward and backward pass."""
    story = []

    def note(name):
        def hook(module, *seen):
            def numbers(value):
                if isinstance(value, tuple):
                    return tuple(numbers(v) for v in value)
                return None if value is None else value.detach().numpy().tolist()

            story.append((name, numbers(seen)))

        return hook

    inner = lib.Linear(2, 2, bias=False)
    with (torch if lib is torch.nn else mt).no_grad():
        inner.weight.copy_(tensor([[1.0, 2.0], [3.0, 4.0]]))
    model = lib.Sequential(inner, lib.Tanh())
    for name, module in model.named_modules():
        module.register_full_backward_hook(note(f"{name} backward"))
        module.register_full_backward_pre_hook(note(f"{name} backward pre"))
        module.register_forward_hook(note(f"{name} forward"))
        module.register_forward_pre_hook(note(f"{name} pre"))
    x = tensor([[0.5, -0.25]])
    x.requires_grad_()
    model(x).sum().backward()
    return story


def test_hooks_run_in_the_same_order_and_see_the_same():
    ours = recorded_hooks(nn, lambda v: mt.tensor(v))
    theirs = recorded_hooks(torch.nn, lambda v: torch.tensor(v))
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for (name, a), (_, b) in zip(ours, theirs, strict=True):
        assert str(a).count("None") == str(b).count("None"), name
        assert pytest.approx(_flatten(a), abs=1e-6) == _flatten(b), name


def _flatten(value):
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in _flatten(v)]
    return [] if value is None else [value]
