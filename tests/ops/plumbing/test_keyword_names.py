"""Other names of arguments: `axis` and `keepdims` wherever there is `dim` and `keepdim`."""

import inspect

import pytest

import minitorch_attn as mt
from minitorch_attn import ops
from minitorch_attn.errors import ArgumentError
from minitorch_attn.ops.plumbing.keyword_names import with_other_names

PLACES = {
    "ops": ops, "F": mt.nn.functional, "linalg": mt.linalg, "fft": mt.fft, "Tensor": mt.Tensor,
}  # fmt: skip
NUMPY = {"dim": "axis", "keepdim": "keepdims"}


def functions():
    for label, place in PLACES.items():
        for name in sorted(dir(place)):
            function = getattr(place, name)
            if not name.startswith("_") and inspect.isroutine(function):
                for ours in NUMPY.keys() & inspect.signature(function).parameters.keys():
                    yield f"{label}.{name}", function, ours


CASES = sorted(functions(), key=lambda case: (case[0], case[2]))


@pytest.mark.parametrize(("name", "function", "ours"), CASES, ids=[f"{a}-{c}" for a, _, c in CASES])
def test_numpys_names_are_accepted_everywhere(name, function, ours):
    """Every function with `dim` takes `axis`, and refuses both."""
    with pytest.raises(ArgumentError, match=rf"^\w+: {ours} is given twice"):
        function(mt.zeros(2), **{ours: 0, NUMPY[ours]: 0})


def test_there_is_something_to_check():
    assert len(CASES) > 130
    assert {"Tensor.max", "Tensor.std", "Tensor.cumsum_", "ops.cat", "ops.stack", "F.softmax",
            "Tensor.size"} <= {name for name, _, _ in CASES}  # fmt: skip


X = mt.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
CALLS = {
    "sum": lambda x, **names: x.sum(**names),
    "mt.sum": mt.sum,
    "mean": lambda x, **names: x.mean(**names),
    "max": lambda x, **names: x.max(**names)[1],
    "std": lambda x, **names: x.std(**names),
    "argmin": lambda x, **names: x.argmin(**names),
    "logsumexp": mt.logsumexp,
    "all": mt.all,
    "norm": mt.norm,
    "linalg.vector_norm": lambda x, **names: mt.linalg.vector_norm(x, **names),
    "in place": lambda x, keepdim=True, keepdims=True, **names: x.clone().cumsum_(**names),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_both_names_give_the_same(call):
    for axis in (0, 1, -1):
        want = call(X, dim=axis, keepdim=True)
        got = call(X, axis=axis, keepdims=True)
        assert got.shape == want.shape and bool((got == want).all())
    assert call(X, dim=0).shape == call(X, axis=0).shape


def test_functions_of_several_tensors():
    assert mt.cat([X, X], axis=1).shape == (2, 6)
    assert mt.stack((X, X), axis=-1).shape == (2, 3, 2)
    assert [x.shape for x in X.split(split_size=2, axis=1)] == [(2, 2), (2, 1)]
    assert X.size(axis=1) == 3 and X.stride(axis=0) == 3


def test_names_of_pytorchs_overloads():
    y = mt.ones(2, 3) * 2
    assert mt.max(X, other=y).tolist() == mt.maximum(X, y).tolist()
    assert [x.shape for x in mt.tensor_split(X, sections=2)] == [(1, 3), (1, 3)]
    assert [x.shape for x in X.hsplit(indices=[1])] == [(2, 1), (2, 2)]
    assert bool((mt.zeros(5).uniform_(**{"from": 2, "to": 3}) >= 2).all())


def test_a_function_without_other_names_is_not_wrapped():
    assert with_other_names(ops.arithmetic.add) is ops.arithmetic.add
    assert "other_names" not in vars(ops.add)


def test_an_unknown_name_is_refused():
    with pytest.raises(TypeError, match="axes"):
        mt.sum(X, axes=0)
