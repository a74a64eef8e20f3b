"""An exception inside a model names the module."""

import copy
import traceback

import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ShapeError


def notes_of(call):
    with pytest.raises(Exception) as caught:
        call()
    return caught.value, getattr(caught.value, "__notes__", [])


def small_gpt():
    sizes = dict(vocab_size=11, context_length=4, embed_dim=8, num_heads=2, num_layers=2)
    return mt.models.GPT(**sizes)


def test_the_path_leads_from_the_outermost_module_to_the_innermost():
    model, ids = small_gpt(), mt.tensor([[1, 2, 3]])
    model.blocks[1].attention.k_proj = nn.Linear(9, 8)
    for _ in range(2):  # the same note each time, and only one
        error, notes = notes_of(lambda: model(ids))
        assert isinstance(error, ShapeError)
        assert notes == [
            "in blocks.1.attention.k_proj = Linear(in_features=9, out_features=8, bias=True)"
        ]
        assert notes[0] in "".join(traceback.format_exception(error))


def test_a_lone_module_is_named_without_a_path():
    assert notes_of(lambda: nn.Linear(3, 2)(mt.ones(4)))[1] == [
        "in Linear(in_features=3, out_features=2, bias=True)"
    ]


class Calls(nn.Module):
    def __init__(self, function, inner=None):
        super().__init__()
        self.function, self.inner = function, inner

    def forward(self, x):
        return self.function(x)


def test_any_exception_of_a_forward_is_named():
    def fail(x):
        raise KeyError("missing")

    model = nn.Sequential(nn.ReLU(), Calls(fail))
    error, notes = notes_of(lambda: model(mt.ones(2)))
    assert isinstance(error, KeyError) and notes == ["in 1 = Calls()"]


def test_a_module_that_is_not_registered_is_named_by_its_class():
    hidden = nn.Linear(3, 2)
    model = nn.Sequential(Calls(lambda x: hidden(x)))
    assert notes_of(lambda: model(mt.ones(4)))[1] == [
        "in 0.(Linear) = Linear(in_features=3, out_features=2, bias=True)"
    ]


def test_notes_that_are_already_there_stay():
    def fail(x):
        error = ValueError("bad")
        error.add_note("look at the data")
        raise error

    assert notes_of(lambda: nn.Sequential(Calls(fail))(mt.ones(2)))[1] == [
        "look at the data", "in 0 = Calls()",
    ]  # fmt: skip


def test_hooks_and_recordings_are_covered():
    model = nn.Sequential(nn.Linear(3, 2))
    model.register_forward_hook(lambda module, inputs, output: None)
    expected = ["in 0 = Linear(in_features=3, out_features=2, bias=True)"]
    assert notes_of(lambda: model(mt.ones(4)))[1] == expected

    def recorded():
        with mt.trace():
            copy.deepcopy(model)(mt.ones(4))

    assert notes_of(recorded)[1] == expected


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: nn.Linear(2, 2)(mt.ones(3, 2).long()), "input.float()"),
        (
            lambda: nn.Linear(2, 2).to(dtype="float64")(mt.ones(3, 2).long()),
            "input.to(weight.dtype)",
        ),
        (lambda: nn.Linear(4, 2)(mt.ones(3, 5)), "use in_features=5 for this layer"),
        (lambda: mt.optim.SGD(nn.Linear(2, 2), lr=0.1), "pass model.parameters()"),
        (lambda: mt.optim.SGD(nn.Sequential().parameters(), lr=0.1), "nn.ModuleList"),
        (lambda: setattr(nn.Linear(2, 2), "weight", mt.ones(2, 2)), "assign nn.Parameter(value)"),
    ],
)
def test_the_hint_follows_the_cause(call, hint):
    error, _ = notes_of(call)
    assert hint in error.hint
