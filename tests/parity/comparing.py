"""Run one random call in both libraries and compare all results."""

import operator
import warnings
from functools import reduce

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from parity import tally
from parity.drawing import Draw, DType, Operand

import minitorch_attn as mt
from minitorch_attn.errors import MiniTorchError

torch = pytest.importorskip("torch")

__all__ = ["Op", "checks"]

REFUSALS = (
    AssertionError, IndexError, RuntimeError, TypeError, ValueError, ZeroDivisionError,
)  # fmt: skip
TOLERANCES = {"d": (1e-11, 1e-9), "f": (2e-5, 2e-4), "e": (2e-3, 2e-3)}


class Op:
    """An operation and how its arguments are drawn.

    Parameters
    ----------
    name : str
        Under `mt` and `torch`, with dots; `operator.add` and its like are Python's.
    draw : callable
        From a `Draw` to a tuple of arguments, of which the last may be a dict of keywords.
    method : bool
        Also call it as a method of its first argument.
    second : bool
        Whether the second derivative is compared.
    wild : bool
        Also draw inf, NaN and huge numbers, for the values alone.
    coarse : bool
        Compare gradients as those of float32.
    label : str, optional
        To tell apart several entries of one operation.
    """

    def __init__(self, name, draw, *, method=True, second=True, wild=False, coarse=False, label=""):
        self.name, self.draw = name, draw
        self.second, self.wild, self.coarse, self.label = second, wild, coarse, label
        self.method = method and "." not in name and hasattr(torch.Tensor, name)

    def __str__(self):
        return self.name + self.label

    def functions(self, as_method):
        if self.name.startswith("operator."):
            return (getattr(operator, self.name.split(".")[1]),) * 2
        path = self.name.split(".")
        if as_method:
            path = ["Tensor", *path]
        return tuple(reduce(getattr, path, library) for library in (mt, torch))


class Call:
    """The arguments of one call of an operation."""

    def __init__(self, op, draw):
        draw = Draw(draw)
        draw.wild = self.wild = op.wild and draw.integer(0, 3) == 3
        given = op.draw(draw)
        self.op, self.rng = op, draw.rng
        self.args, self.kwargs = given, {}
        if given and isinstance(given[-1], dict):
            self.args, self.kwargs = given[:-1], given[-1]
        self.as_method = op.method and isinstance(self.args[0], Operand) and draw.flag()

    def __repr__(self):
        how = "Tensor." if self.as_method else ""
        words = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())]
        return f"{how}{self.op.name}({', '.join(words)})"

    def built(self, make):
        """The arguments for one library, and the leaves that need a gradient."""
        leaves = []

        def build(value):
            if isinstance(value, Operand):
                tensor = make(value)
                if value.needs_grad and not self.wild:
                    leaves.append(tensor.requires_grad_())
                return tensor
            if isinstance(value, (tuple, list)):
                return type(value)([build(v) for v in value])
            return make(value) if isinstance(value, DType) else value

        return [build(v) for v in self.args], {k: build(v) for k, v in self.kwargs.items()}, leaves

    def operands(self):
        def found(value):
            if isinstance(value, Operand):
                yield value
            elif isinstance(value, (tuple, list)):
                for v in value:
                    yield from found(v)

        return found([*self.args, *self.kwargs.values()])

    def precision(self):
        """The letter of the smallest floating dtype in the call."""
        if self.op.coarse:
            return "f"
        asked = [np.dtype(str(v)) for v in self.kwargs.values() if isinstance(v, DType)]
        floats = [d for d in [*asked, *(o.dtype for o in self.operands())] if d.kind == "f"]
        return min(floats, key=lambda dtype: dtype.itemsize, default=np.dtype("float64")).char


def for_torch(device):
    def make(value):
        if isinstance(value, DType):
            return getattr(torch, value)
        same = device == "cpu" and all(stride >= 0 for stride in value.host.strides)
        return torch.from_numpy(value.host if same else value.host.copy("A"))

    return make


def for_us(device):
    def make(value):
        if isinstance(value, DType):
            return getattr(mt, value)
        if device == "cpu":
            return mt.from_numpy(value.host)
        return mt.tensor(value.host, device=device)

    return make


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def close(ours, theirs, what, tolerance=None):
    """Equal dtype, shape and elements; with a tolerance of its own, relative to the largest."""
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, PyTorch {theirs.shape}"
    assert ours.dtype == theirs.dtype, f"{what}: dtype {ours.dtype}, PyTorch {theirs.dtype}"
    if theirs.dtype.kind != "f":
        np.testing.assert_array_equal(ours, theirs, err_msg=what)
        return
    atol, rtol = tolerance or TOLERANCES[theirs.dtype.char]
    if tolerance:
        finite = np.abs(theirs[np.isfinite(theirs)])
        atol = max(atol, rtol * float(finite.max(initial=0)))
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=what)


def compare(call, device):
    """One call in both libraries."""
    ours, theirs = call.op.functions(call.as_method)
    before = [operand.host.copy() for operand in call.operands()]
    args, kwargs, torch_leaves = call.built(for_torch(device))
    own_args, own_kwargs, leaves = call.built(for_us(device))
    try:
        want = as_list(theirs(*args, **kwargs))
    except REFUSALS as error:
        try:
            got = str(ours(*own_args, **own_kwargs))  # a device may refuse only when it is read
        except MiniTorchError:
            tally.refused[call.op.name] += 1
            return
        raise AssertionError(f"PyTorch refuses this, ours gives {got}: {error}") from None
    got = as_list(ours(*own_args, **own_kwargs))
    assert len(got) == len(want), f"{len(got)} results, PyTorch {len(want)}"
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        same_value(a, b, f"result {number}")
        if isinstance(b, torch.Tensor) and a.requires_grad != b.requires_grad:
            # What comes from nothing at all may be a constant of ours.
            nothing = any(operand.host.size == 0 for operand in call.operands())
            assert b.requires_grad and nothing, f"result {number}: requires_grad"
    for operand, values in zip(call.operands(), before, strict=True):
        np.testing.assert_array_equal(operand.host, values, err_msg="an input was changed")
    compare_gradients(call, device, got, want, leaves, torch_leaves)
    tally.compared[call.op.name] += 1


def same_value(ours, theirs, what):
    if not isinstance(theirs, torch.Tensor):
        if isinstance(theirs, torch.dtype):
            theirs = mt.as_dtype(str(theirs).removeprefix("torch."))
        assert ours == theirs and type(ours) is type(theirs), f"{what}: {ours}, PyTorch {theirs}"
        return
    close(ours.detach().numpy(), theirs.numpy(force=True), what)


def compare_gradients(call, device, got, want, leaves, torch_leaves):
    """The gradients under a random cotangent, then the gradients of those."""
    roots = [n for n, a in enumerate(got) if isinstance(a, mt.Tensor) and a.requires_grad]
    if not roots:
        return
    finite = all(b.isfinite().all() for b in want if isinstance(b, torch.Tensor))
    hosts = [normal(call.rng, want[n]) for n in roots]
    cotangents = [mt.tensor(h, device=device, requires_grad=True) for h in hosts]
    torch_cotangents = [torch.tensor(h, requires_grad=True) for h in hosts]
    got, want = [got[n] for n in roots], [want[n] for n in roots]
    plain = mt.autograd.grad(got, leaves, cotangents, retain_graph=True, allow_unused=True)
    linked = mt.autograd.grad(got, leaves, cotangents, create_graph=True, allow_unused=True)
    try:
        wanted = torch.autograd.grad(
            want, torch_leaves, torch_cotangents, create_graph=True, allow_unused=True
        )
    except RuntimeError:  # PyTorch has no derivative here
        return
    for number, b in enumerate(wanted):
        for a, how in ((plain[number], ""), (linked[number], " (create_graph)")):
            same_gradient(call, a, b, leaves[number], f"gradient {number}{how}")
    if call.op.second and finite:
        compare_second(
            call, wanted, linked, [*leaves, *cotangents], [*torch_leaves, *torch_cotangents]
        )


def normal(rng, like):
    """Random numbers in the shape and dtype of a tensor of PyTorch's."""
    return np.asarray(rng.standard_normal(tuple(like.shape))).astype(like.numpy(force=True).dtype)


def same_gradient(call, ours, theirs, leaf, what, second=False):
    """Equal derivatives, in the coarsest precision of the call.

    Where PyTorch's second derivative is NaN there is none, and any value of ours will do.
    """
    host = np.zeros(leaf.shape, leaf.dtype) if theirs is None else theirs.numpy(force=True)
    got = np.zeros(leaf.shape, leaf.dtype) if ours is None else ours.detach().numpy()
    if second and got.shape == host.shape:
        got = np.where(np.isnan(host), np.nan, got).astype(got.dtype)
    atol, rtol = TOLERANCES[call.precision()]
    spread = 10 if second else 1
    close(got, host, what, (atol * spread, rtol * spread))


def compare_second(call, wanted, linked, leaves, torch_leaves):
    theirs = {n: b for n, b in enumerate(wanted) if b is not None and b.requires_grad}
    if not theirs or not all(b.isfinite().all() for b in theirs.values()):
        return
    weights = {n: normal(call.rng, b) for n, b in theirs.items()}
    try:
        second = torch.autograd.grad(
            list(theirs.values()),
            torch_leaves,
            [torch.from_numpy(w) for w in weights.values()],
            allow_unused=True,
        )
    except (RuntimeError, NotImplementedError):  # PyTorch has no second derivative here
        return
    own = [n for n in theirs if linked[n] is not None and linked[n].requires_grad]
    found = [None] * len(leaves)
    if own:
        device = leaves[0].device
        found = mt.autograd.grad(
            [linked[n] for n in own],
            leaves,
            [mt.tensor(weights[n], device=device) for n in own],
            allow_unused=True,
        )
    for number, (a, b) in enumerate(zip(found, second, strict=True)):
        same_gradient(call, a, b, leaves[number], f"second derivative {number}", True)
    tally.second[call.op.name] += 1


@st.composite
def calls(draw, op):
    return Call(op, draw)


def checks(*ops):
    """test_x = checks(Op(...), Op(...)): each operation, on as many drawn calls as asked for."""

    @pytest.mark.parity
    @pytest.mark.parametrize("op", ops, ids=str)
    def test(op, device, draws):
        @settings(
            max_examples=draws,
            derandomize=draws == tally.DEFAULT_DRAWS,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(calls(op))
        def every(call):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compare(call, device)

        every()

    test.operations = ops
    return test
