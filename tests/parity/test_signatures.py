"""Every argument that PyTorch documents for a function of ours is accepted under its name."""

import inspect

import pytest

import minitorch_attn as mt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

PAIRS = {
    "mt": (mt, torch),
    "F": (mt.nn.functional, torch.nn.functional),
    "fft": (mt.fft, torch.fft),
    "linalg": (mt.linalg, torch.linalg),
    "Tensor": (mt.Tensor, torch.Tensor),
}

# Memory that PyTorch lets a caller choose: dense arrays in row-major order are all there is here.
NOWHERE = {
    "out", "out_dtype", "layout", "pin_memory", "memory_format", "sparse_grad", "is_coalesced",
    "cudnn_enable", "implicit", "cudnn_enabled", "non_blocking", "_stacklevel",
}  # fmt: skip

# Overloads that are PyTorch's own plumbing, not documented, or documented for something else.
NOT_DOCUMENTED = {
    "mt.embedding_bag",  # torch.embedding_bag is the kernel of F.embedding_bag, with other ones
    "mt.embedding", "mt.einsum", "mt.result_type", "mt.atleast_1d", "mt.atleast_2d", "mt.save",
    "mt.load", "mt.initial_seed", "mt.manual_seed", "Tensor.backward", "mt.split",
}  # fmt: skip


def common():
    """(name, our function, PyTorch's) of everything callable that both have."""
    for label, (ours, theirs) in PAIRS.items():
        for name in sorted(dir(ours)):
            function, other = getattr(ours, name), getattr(theirs, name, None)
            if name.startswith("_") or not callable(function) or not callable(other):
                continue
            if not isinstance(function, type) and f"{label}.{name}" not in NOT_DOCUMENTED:
                yield f"{label}.{name}", function, other


def documented(name, function):
    """The lists of argument names of PyTorch's function: its own, or those of its overloads."""
    try:
        parameters = inspect.signature(function).parameters.values()
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
            return []  # it hands its arguments on
        return [[p.name for p in parameters]]
    except ValueError:
        pass
    schema = name.replace("linalg.", "linalg_").replace("fft.", "fft_").split(".")[-1]
    packet = getattr(torch.ops.aten, schema, None)
    overloads = (
        [] if packet is None else [getattr(packet, key)._schema for key in packet.overloads()]
    )
    lists = []
    for words in (schema.arguments for schema in overloads):
        kinds = " ".join(str(word.type) for word in words)
        if words and "Dimname" not in kinds and not any(word.is_out for word in words):
            if str(words[0].type) == "Tensor" or words[0].name == "tensors":
                lists.append(["input" if word.name == "self" else word.name for word in words])
    return lists


def accepted(function):
    """The names under which arguments are accepted, or None if any name is."""
    names = set()
    while True:
        parameters = inspect.signature(function, follow_wrapped=False).parameters
        names |= set(parameters) | set(getattr(function, "other_names", ()))
        if not hasattr(function, "__wrapped__"):
            any_name = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
            return None if any_name else names
        function = function.__wrapped__


CASES = list(common())


@pytest.mark.parametrize(("name", "ours", "theirs"), CASES, ids=[case[0] for case in CASES])
def test_every_name_is_accepted(name, ours, theirs):
    names = accepted(ours)
    if names is None:
        return
    first = {"input", "self", "tensor"} if name.startswith("Tensor.") else set()
    for words in documented(name, theirs):
        assert set(words) - NOWHERE - first <= names, words


def test_there_is_something_to_compare():
    assert len(CASES) > 300
    assert sum(bool(documented(name, theirs)) for name, _, theirs in CASES) > 250


CALLS = """
lib.where(x > 0); lib.where(v[0]); x.where(condition=x > 0, other=v)
lib.arange(end=3); lib.arange(start=1, end=7, step=2); lib.zeros(size=(2, 3)); lib.ones(size=[2])
x.flip(dims=(0,)); x.flip(dims=[0, 1]); x.view(size=(3, 2)); x.view(dtype=lib.int32)
x.permute(dims=(1, 0)); x.expand(size=(4, 2, 3)); x.reshape(shape=(-1,)); x.repeat(repeats=(2, 1))
x.tile(dims=(2,)); lib.broadcast_to(v, size=(2, 3)); x.swapaxes(axis0=0, axis1=1)
lib.swapaxes(x, axis0=0, axis1=1); x.to(lib.ones(1, dtype=lib.float64)); x.sum(axis=1)
x.new_zeros(size=(2,), dtype=lib.int64); x.new_ones(2, 3, requires_grad=True).sum()
x.new_full((2,), 7, device="cpu"); x.new_tensor([1, 2], dtype=lib.int32); x.new_tensor([1, 2])
x.new_empty(size=(2, 0)); lib.searchsorted(v, v, side="right"); lib.searchsorted(v, v, right=True)
lib.searchsorted(v.flip(0), v, sorter=lib.tensor([2, 1, 0])); lib.zeros(2, 3).copy_(other=x)
lib.max(x, other=v); x.max(axis=1, keepdims=True)[0]; lib.cat(tensors=[x, x], axis=-1)
lib.randint(high=1, size=(2,)); lib.randint(0, 1, (2,), requires_grad=True, dtype=lib.float32)
lib.rand_like(x, generator=None) * 0; x.tensor_split(sections=2)[1]
lib.dropout(x, 0.5, train=False)
"""


@pytest.mark.parametrize(
    "call", [c.strip() for c in CALLS.replace("\n", ";").split(";") if c.strip()]
)
def test_a_documented_call_gives_the_same(call):
    def results(lib):
        x = lib.tensor([[3.0, -1.0, 2.0], [0.0, 5.0, -4.0]])
        given = {"lib": lib, "x": x, "v": lib.tensor([-2.0, 0.5, 3.0])}
        found = eval(call, given)
        return found if isinstance(found, tuple) else (found,)

    ours, theirs = results(mt), results(torch)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.tolist() == b.tolist() and str(a.dtype) == str(b.dtype).removeprefix("torch.")
        assert a.requires_grad == b.requires_grad


@pytest.mark.parametrize(
    "call",
    ["x.view(2, size=(2,))", "x.permute(1, dims=(1, 0))", "x.flip(0, dims=0)", "mt.where(x, x)",
     "mt.searchsorted(x, x, side='middle')", "mt.searchsorted(x, x, right=True, side='left')",
     "mt.max(x, 0, other=x)", "mt.view(x, (2,), dtype=mt.int32)"],
)  # fmt: skip
def test_a_contradiction_is_refused(call):
    with pytest.raises((mt.errors.MiniTorchError, TypeError)):
        eval(call, {"mt": mt, "x": mt.tensor([1.0, 2.0])})
